// SPDX-License-Identifier: MIT
// RedisProcess: a real server of Redis or Valkey in a temporary folder, at a unix socket and at a
// free port of loopback.
#pragma once
#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "tests/support/services/child_program.h"

namespace uopd::test {

struct RedisOptions {
  std::string program = "redis-server";
  std::vector<std::string> flags;  // as --requirepass SECRET
  uint16_t sentinel_of =
      0;             // a sentinel that watches the server at this port as "main"; 0: a server
  bool tls = false;  // the port takes TLS only; with the certificates of MakeCertificates
};

class RedisProcess {
 public:
  // Waits until the server answers. UNAVAILABLE, with its log, if that takes over 20 seconds.
  static absl::StatusOr<std::unique_ptr<RedisProcess>> Start(const RedisOptions& options = {});
  ~RedisProcess();  // kills it

  const std::string& folder() const { return folder_; }
  std::string socket() const { return folder_ + "/redis.sock"; }
  uint16_t port() const { return port_; }
  // The certificates of a server with TLS: ca.pem, and of the server (localhost and 127.0.0.1)
  // cert.pem and key.pem.
  std::string ca_file() const { return folder_ + "/ca.pem"; }

  // What redis-cli prints for a command, such as "INFO memory".
  std::string Ask(const std::string& command) const;

  void Kill() { child_.Kill(); }
  void Pause() { child_.Pause(); }
  void Continue() { child_.Continue(); }
  absl::Status Restart();  // the same folder, socket and port; empty, as nothing is kept on disk

 private:
  RedisProcess() = default;
  absl::Status Spawn();

  RedisOptions options_;
  std::string folder_;
  uint16_t port_ = 0;
  ChildProgram child_;
};

}  // namespace uopd::test
