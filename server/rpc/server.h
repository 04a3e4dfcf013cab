// SPDX-License-Identifier: MIT
// The listening side: address, limits of connections and messages, memory bound, health and
// reflection services.
//
// The listener and its acceptor are ours (server/net): gRPC has no bound on connections, and sets
// no mode of a socket file.
#pragma once
#include <grpcpp/grpcpp.h>

#include <chrono>
#include <memory>
#include <string>

#include "core/base/config.h"
#include "server/engine/engine.h"
#include "server/net/acceptor.h"
#include "server/net/listener.h"
#include "server/rpc/service.h"

namespace uopd::rpc {

class Server {
 public:
  // Serves when it returns. INVALID_ARGUMENT for an address that makes no sense, or that others
  // reach while server.allow_insecure_remote is off; UNAVAILABLE for one that cannot be bound. The
  // engine outlives the server.
  static absl::StatusOr<std::unique_ptr<Server>> Start(engine::Engine& engine,
                                                       const Config& config);
  ~Server();

  // With the port that was bound; unix:PATH as given.
  const std::string& address() const { return address_; }

  // Health says NOT_SERVING from now on.
  void SetNotServing();
  // Ends what is still open at `deadline`, by cancelling it.
  void Shutdown(std::chrono::system_clock::time_point deadline);

 private:
  Server(engine::Engine& engine, ServiceLimits limits, StreamLimits streams)
      : service_(engine, limits, streams) {}

  void StopAccepting();

  Service service_;
  std::string address_;
  std::unique_ptr<grpc::experimental::ExternalConnectionAcceptor> connections_;
  std::unique_ptr<grpc::Server> server_;
  std::unique_ptr<net::Listener> listener_;
  std::unique_ptr<net::Acceptor> acceptor_;
};

}  // namespace uopd::rpc
