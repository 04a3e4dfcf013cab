// SPDX-License-Identifier: MIT
// PeerProcess: a program that other libraries run in, asked line by line (tests/perf/peers/).
#pragma once
#include <sys/types.h>

#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "core/base/status.h"

namespace uopd::perf {

class PeerProcess {
 public:
  // Which Python runs a script: that of `deploy/install-deps --peers`, or the distribution's.
  enum class Python : uint8_t { kPeers, kDistribution };

  // Starts `script`, a file in tests/perf/peers. UNAVAILABLE without its Python.
  static absl::StatusOr<std::unique_ptr<PeerProcess>> Start(
      const std::string& script, const std::vector<std::string>& arguments = {},
      Python python = Python::kPeers);
  ~PeerProcess();  // ends the process
  PeerProcess(const PeerProcess&) = delete;
  PeerProcess& operator=(const PeerProcess&) = delete;

  // Sends a line, waits for one line and returns it. UNAVAILABLE if the process has ended.
  absl::StatusOr<std::string> Ask(const std::string& line);

 private:
  PeerProcess(pid_t pid, FILE* to, FILE* from) : pid_(pid), to_(to), from_(from) {}

  const pid_t pid_;
  FILE* const to_;
  FILE* const from_;
};

}  // namespace uopd::perf
