// SPDX-License-Identifier: MIT
// A real uopd in a temporary folder, for end-to-end tests and benchmarks.
#pragma once
#include <sys/types.h>

#include <memory>
#include <string>
#include <vector>

#include "core/base/status.h"

namespace uopd::testing {

struct DaemonOptions {
  std::string program;             // path of uopd
  std::string data_dir;            // empty: a fresh temporary folder, removed with the object
  std::vector<std::string> flags;  // further ones
};

// Runs until destroyed (killed then) or stopped. Not thread-safe.
class Daemon {
 public:
  // Waits until the daemon serves. UNAVAILABLE with the end of its log if it does not within 20
  // seconds.
  static absl::StatusOr<std::unique_ptr<Daemon>> Start(const DaemonOptions& options);
  ~Daemon();
  Daemon(const Daemon&) = delete;
  Daemon& operator=(const Daemon&) = delete;

  const std::string& address() const { return address_; }
  const std::string& http_address() const { return http_address_; }
  const std::string& data_dir() const { return data_dir_; }
  pid_t pid() const { return pid_; }
  bool Running();  // false once the process has ended
  std::string Log() const;

  // Sends a signal and waits for the end; returns the exit code, or -signal if a signal ended it.
  int Stop(int signal);

 private:
  Daemon() = default;
  pid_t pid_ = -1;
  std::string address_, http_address_, data_dir_, log_path_;
  bool owns_data_dir_ = false;
};

}  // namespace uopd::testing
