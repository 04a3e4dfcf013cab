// SPDX-License-Identifier: MIT
// A real uopd on free ports of the loopback, for end-to-end tests and benchmarks.
//
// Not thread-safe, but for Http and Metric.
#pragma once
#include <sys/types.h>

#include <memory>
#include <string>
#include <vector>

#include "core/base/status.h"

namespace uopd::testing {

struct DaemonOptions {
  std::string program;  // path of uopd
  // Where folder/data, folder/log and folder/ready.json go; empty: a temporary one, removed with
  // the object.
  std::string folder;
  std::vector<std::string> flags;  // come last and so win
};

class Daemon {
 public:
  // Waits until the daemon serves. UNAVAILABLE with the end of its log if it does not within a
  // minute.
  static absl::StatusOr<std::unique_ptr<Daemon>> Start(const DaemonOptions& options);
  ~Daemon();  // kills it
  Daemon(const Daemon&) = delete;
  Daemon& operator=(const Daemon&) = delete;

  const std::string& address() const { return address_; }
  const std::string& http_address() const { return http_address_; }
  const std::string& folder() const { return folder_; }
  pid_t pid() const { return pid_; }
  bool Running();  // false once the process has ended

  void Signal(int signal) const;
  // Waits for the end; the exit status, or minus the signal that ended it.
  int Wait();
  // An answer of its HTTP server, with the status line in front.
  std::string Http(const std::string& path) const;
  // The value of a series as /metrics spells it, e.g. `uopd_sessions`; -1 when it is not there.
  double Metric(const std::string& series) const;
  std::string Log() const;

 private:
  Daemon() = default;
  absl::Status Spawn(const DaemonOptions& options);
  absl::Status AwaitReady();

  pid_t pid_ = -1;
  int status_ = 0;  // as waitpid has it, once it has ended
  bool ended_ = false;
  std::string address_, http_address_, folder_;
  bool owns_folder_ = false;
};

// Empty when it cannot be read.
std::string ReadFile(const std::string& path);

}  // namespace uopd::testing
