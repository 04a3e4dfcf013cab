// SPDX-License-Identifier: MIT
// Runs another program to its end: input, output and errors are bytes in memory. Stateless and
// thread-safe. The calling thread waits.
#pragma once
#include <string>
#include <vector>

#include "core/base/status.h"

namespace uopd::devices::gpu {

struct ProgramEnd {
  int exit_status = 0;  // 128 + N for a signal N
  std::string output;
  std::string errors;
};

// `program` is a path. UNAVAILABLE: it does not start.
absl::StatusOr<ProgramEnd> RunProgram(const std::string& program,
                                      const std::vector<std::string>& arguments,
                                      std::string_view input);

}  // namespace uopd::devices::gpu
