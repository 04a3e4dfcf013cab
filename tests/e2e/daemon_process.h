// SPDX-License-Identifier: MIT
// A uopd process of a test: started on free ports in a folder, found through its ready file, killed
// at the end.
//
// Fails the test (and the process is then not running()) when the daemon does not start.
#pragma once
#include <sys/types.h>

#include <filesystem>
#include <string>
#include <vector>

namespace uopd::e2e {

// A folder that is removed at the end, except after a failed test.
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
  // Data in folder/data, log in folder/log, ready file folder/ready.json. `flags` come last and so
  // win.
  explicit DaemonProcess(const std::filesystem::path& folder, std::vector<std::string> flags = {});
  ~DaemonProcess();
  DaemonProcess(const DaemonProcess&) = delete;
  DaemonProcess& operator=(const DaemonProcess&) = delete;

  bool running() const { return pid_ > 0; }
  pid_t pid() const { return pid_; }
  const std::string& listen() const { return listen_; }
  const std::string& http() const { return http_; }
  const std::filesystem::path& folder() const { return folder_; }

  void Signal(int signal) const;
  // Waits for the end; the exit status, or minus the signal.
  int Wait();
  // The body of an answer of its HTTP server, with the status line in front.
  std::string Http(const std::string& path) const;
  // The value of a series as /metrics spells it, e.g. `uopd_sessions`; -1 when it is not there.
  double Metric(const std::string& series) const;
  std::string Log() const;

 private:
  bool AwaitReady();

  const std::filesystem::path folder_;
  pid_t pid_ = -1;
  std::string listen_, http_;
};

std::string ReadFile(const std::filesystem::path& path);

}  // namespace uopd::e2e
