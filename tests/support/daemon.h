// SPDX-License-Identifier: MIT
// Daemon: a real uopd process on free loopback ports, for end-to-end tests and benchmarks.
//
// Not thread-safe, except for Http and Metric.
#pragma once
#include <sys/types.h>

#include <memory>
#include <string>
#include <vector>

#include "core/base/status.h"

namespace uopd::test {

struct DaemonOptions {
  std::string program;  // path of uopd
  // The parent of data, log and ready.json. Empty: a temporary folder, removed with the Daemon.
  std::string folder;
  std::vector<std::string> flags;  // added last, so they override other flags
  // Folders of control groups (control_group.h) that the process enters first, and whether it then
  // has a namespace of groups, which needs a privilege.
  std::vector<std::string> groups;
  bool group_namespace = false;
};

class Daemon {
 public:
  // Waits until the daemon serves. UNAVAILABLE, with the end of its log, if that takes over a
  // minute.
  static absl::StatusOr<std::unique_ptr<Daemon>> Start(const DaemonOptions& options);
  ~Daemon();  // kills the process
  Daemon(const Daemon&) = delete;
  Daemon& operator=(const Daemon&) = delete;

  const std::string& address() const { return address_; }
  const std::string& http_address() const { return http_address_; }
  const std::string& folder() const { return folder_; }
  pid_t pid() const { return pid_; }
  bool Running();  // false once the process has ended

  void Signal(int signal) const;
  // Waits for the end of the process. Returns its exit status, or minus the signal that ended it.
  int Wait();
  // The answer of the HTTP server, including the status line. `accept`: that header; empty: none.
  std::string Http(const std::string& path, const std::string& accept = "") const;
  // The value of a series, named as in /metrics, e.g. `uopd_sessions`; -1 if there is none.
  double Metric(const std::string& series) const;
  std::string Log() const;

 private:
  Daemon() = default;
  absl::Status Spawn(const DaemonOptions& options);
  absl::Status AwaitReady();

  pid_t pid_ = -1;
  int status_ = 0;  // from waitpid; valid if ended_
  bool ended_ = false;
  std::string address_, http_address_, folder_;
  bool owns_folder_ = false;
};

// The contents of a file; empty if it cannot be read.
std::string ReadFile(const std::string& path);

}  // namespace uopd::test
