// SPDX-License-Identifier: MIT
// The side socket: beside a Unix socket PATH, a second one named PATH.side. There a client gets the
// memory that it shares with the daemon (SharedArea), since gRPC passes no descriptors.
//
//   client: "uopd-side-1\n" and a token of its session, in one piece
//   daemon: number and size of the area as two u64, little-endian, with the descriptor; then it
//   closes
//
// A token that is not valid, or an area that cannot be made, ends the connection without an answer.
// Descriptors that a client sends are never received. A connection costs what a silent connection
// of the Acceptor costs, and no thread: what the daemon reads and writes never waits. Thread-safe.
#pragma once
#include <memory>

#include "core/base/config/config.h"
#include "core/base/unique_fd.h"
#include "server/engine/engine.h"
#include "server/net/acceptor.h"
#include "server/net/listener.h"

namespace uopd::rpc {

class SideSocket {
 public:
  // `address` is that of the Unix socket. Errors are those of net::Listener. The engine outlives
  // the side socket.
  static absl::StatusOr<std::unique_ptr<SideSocket>> Start(engine::Engine& engine,
                                                           const net::Address& address,
                                                           const Config& config);
  ~SideSocket();

 private:
  explicit SideSocket(engine::Engine& engine) : engine_(engine) {}
  void Serve(UniqueFd connection);

  engine::Engine& engine_;
  std::unique_ptr<net::Listener> listener_;
  std::unique_ptr<net::Acceptor> acceptor_;
};

}  // namespace uopd::rpc
