// SPDX-License-Identifier: MIT
// The daemon: everything that runs between start and exit, made from a configuration.
//
// Used by the main thread. Start order: log, cache, devices, engine with its workers, gRPC, HTTP,
// ready file. The end has the opposite order, except that gRPC ends its connections first.
#pragma once
#include <functional>
#include <memory>

#include "core/base/config/config.h"
#include "server/addresses.h"
#include "server/engine/engine.h"
#include "server/http/http_server.h"
#include "server/ready_file.h"
#include "server/rpc/server.h"

namespace uopd {

class Daemon {
 public:
  // Returns a daemon that serves already. `forks` outlives it.
  static absl::StatusOr<std::unique_ptr<Daemon>> Start(const Config& config, Listeners listeners,
                                                       worker::ForkServer& forks);

  // Applies the settings that may change while the daemon runs. Logs the names of the others.
  void Reload(const Config& config);
  // Reads the tokens again, and takes over who is an operator. Logs why it cannot.
  void ReloadTenants();
  // How long End may wait for requests.
  std::chrono::milliseconds drain_limit() const {
    return config_.server_drain_delay_ms() + config_.server_drain_timeout_ms();
  }
  // Where it serves, for people.
  std::string Serving() const;
  // Returns once the locks that requests need could be had.
  void Touch() const;
  // Says that it ends, serves on for server.drain_delay_ms, then refuses new requests, waits for
  // the running ones, at most server.drain_timeout_ms, and ends everything. `begin` is called with
  // the name of each part before that part ends. False: requests were cut off. Called once.
  bool End(const std::function<void(const char* part)>& begin);

 private:
  explicit Daemon(Config config) : config_(std::move(config)) {}
  absl::Status StartServing(Listeners listeners, worker::ForkServer& forks);

  Config config_;
  std::unique_ptr<engine::Engine> engine_;
  std::unique_ptr<rpc::Server> rpc_;
  std::unique_ptr<http::HttpServer> http_;
  ReadyFile ready_;
};

}  // namespace uopd
