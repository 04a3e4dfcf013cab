// SPDX-License-Identifier: MIT
// The listening side: the address, the limits of connections and messages, the memory bound, and
// the services for health and reflection.
//
// The listener and its acceptor are our own (server/net), because gRPC does not limit connections
// and does not set the mode of a socket file.
#pragma once
#include <grpcpp/grpcpp.h>

#include <chrono>
#include <memory>
#include <string>

#include "core/base/config/config.h"
#include "server/engine/engine.h"
#include "server/net/acceptor.h"
#include "server/net/listener.h"
#include "server/rpc/device_health.h"
#include "server/rpc/service.h"
#include "server/rpc/side_socket.h"

namespace uopd::rpc {

class Server {
 public:
  // Returns a server that serves at a bound address already. UNAVAILABLE: another process was
  // quicker there. The engine outlives the server.
  static absl::StatusOr<std::unique_ptr<Server>> Start(engine::Engine& engine, const Config& config,
                                                       std::unique_ptr<net::Listener> bound);
  ~Server();

  // The address with the port that was bound. unix:PATH is returned as it was given.
  const std::string& address() const { return address_; }

  // From now on the health service says NOT_SERVING.
  void SetNotServing();
  // Returns when the clients' systems have all that was sent to them, at `deadline`, or when no
  // client has taken anything for 10 s. True: something was still on the way to a client.
  bool AwaitConfirmed(std::chrono::steady_clock::time_point deadline);
  // Cancels the calls that are still open at `deadline`.
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
  std::unique_ptr<SideSocket> side_;  // null: none
  std::unique_ptr<DeviceHealth> device_health_;
};

}  // namespace uopd::rpc
