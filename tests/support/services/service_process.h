// SPDX-License-Identifier: MIT
// ServiceProcess: a server from PyPI in a temporary folder, at a free port of loopback.
// UOPD_SERVICES names the folder of the environment of Python that has it (tests/run sets it,
// deploy/install-deps --tests makes it).
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "tests/support/services/child_program.h"

namespace uopd::test {

// Whether UOPD_SERVICES is set. Tests skip otherwise.
bool HasServices();

class ServiceProcess {
 public:
  // The words of the command, whose first is a program of the environment, given the folder and the
  // port.
  using Command = std::function<std::vector<std::string>(const std::string& folder, uint16_t port)>;

  using Environment = std::vector<std::pair<std::string, std::string>>;
  // `environment`: variables for the server. Waits until something listens at the port.
  // UNAVAILABLE, with what the server said, if that takes over a minute.
  static absl::StatusOr<std::unique_ptr<ServiceProcess>> Start(const Command& command,
                                                               Environment environment = {});
  // A server of BuildGrid with a cache "uopd" of the Remote Execution API, in memory.
  static absl::StatusOr<std::unique_ptr<ServiceProcess>> StartBuildGrid();
  ~ServiceProcess();  // kills it

  const std::string& folder() const { return folder_; }
  uint16_t port() const { return port_; }
  void Kill() { child_.Kill(); }
  void Pause() { child_.Pause(); }
  void Continue() { child_.Continue(); }
  absl::Status Restart();  // at the same port

 private:
  ServiceProcess() = default;
  absl::Status Spawn();

  Command command_;
  Environment environment_;
  std::string folder_;
  uint16_t port_ = 0;
  ChildProgram child_;
};

}  // namespace uopd::test
