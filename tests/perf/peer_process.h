// SPDX-License-Identifier: MIT
// PeerProcess: a program that other libraries run in, asked line by line (tests/perf/peers/).
#pragma once
#include <sys/types.h>

#include <cstdio>
#include <memory>
#include <string>

#include "core/base/status.h"

namespace uopd::perf {

class PeerProcess {
 public:
  // Starts `script` with the Python of `deploy/install-deps --peers`. UNAVAILABLE without one.
  static absl::StatusOr<std::unique_ptr<PeerProcess>> Start(const std::string& script);
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
