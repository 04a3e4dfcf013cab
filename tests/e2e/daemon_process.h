// SPDX-License-Identifier: MIT
// test::Daemon as a member of a test. If the daemon does not start, the test fails, and
// running() is false.
#pragma once
#include <filesystem>
#include <initializer_list>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "tests/support/daemon.h"

namespace uopd::e2e {

// A folder that is removed at the end, unless the test failed.
class TemporaryFolder {
 public:
  TemporaryFolder();
  ~TemporaryFolder();
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

class DaemonProcess {
 public:
  explicit DaemonProcess(const std::filesystem::path& folder, std::vector<std::string> flags = {});
  explicit DaemonProcess(const test::DaemonOptions& options);

  bool running() const { return daemon_ != nullptr && daemon_->pid() > 0; }
  pid_t pid() const { return running() ? daemon_->pid() : -1; }
  const std::string& listen() const { return listen_; }
  const std::string& http() const { return http_; }

  void Signal(int signal) const {
    if (daemon_ != nullptr) daemon_->Signal(signal);
  }
  int Wait() { return daemon_ != nullptr ? daemon_->Wait() : -1000; }
  std::string Http(const std::string& path) const {
    return daemon_ != nullptr ? daemon_->Http(path) : "";
  }
  double Metric(const std::string& series) const {
    return daemon_ != nullptr ? daemon_->Metric(series) : -1;
  }
  std::string Log() const { return daemon_ != nullptr ? daemon_->Log() : ""; }

 private:
  std::unique_ptr<test::Daemon> daemon_;
  std::string listen_, http_;
};

using test::ReadFile;

// Writes a token file into the folder, and returns its path. The token of the tenant NAME is
// "NAME's".
std::string WriteTokenFile(const std::filesystem::path& folder,
                           std::initializer_list<std::string_view> tenants);

}  // namespace uopd::e2e
