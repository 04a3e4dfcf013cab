// SPDX-License-Identifier: MIT
// Connection: an Executor over gRPC, with one session on one daemon.
//
// Connect checks versions and opens the session. The destructor closes the session, which frees
// everything that the client has on the daemon. As long as the Connection lives, a thread of its
// own renews the lease, so a client may be idle for any time. All other use is by one thread at a
// time.
//
// Errors carry the daemon's code and message. If a node of a graph is to blame, GetNode
// (core/base/status.h) returns it. If the transport fails (UNAVAILABLE), the session is resumed,
// and calls that the daemon recognises by their request id are sent again. If the session is gone
// for good, calls fail with FAILED_PRECONDITION: its tensors are lost.
#pragma once
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "absl/time/time.h"
#include "client/cpp/credentials.h"
#include "client/cpp/executor.h"

namespace uopd::client {

struct ConnectOptions {
  // host:port or unix:PATH.
  std::string address = "127.0.0.1:50510";
  Credentials credentials;
  // Limit for each call. A first Execute includes compilation.
  absl::Duration timeout = absl::Minutes(10);
  // Requested time to live of the session without calls. Zero: the daemon's default.
  absl::Duration ttl = absl::ZeroDuration();
  std::string client_name = "libuopd-client 0.1";
  // Gets the lines that the daemon returns for DEBUG=1..7. Null: they go to standard error. The code
  // of kernels (levels from 3 on) is asked for once for every graph.
  std::function<void(std::string_view)> debug_text;
};

class Connection : public Executor {
 public:
  static absl::StatusOr<std::shared_ptr<Connection>> Connect(ConnectOptions options);
  ~Connection() override;

  absl::StatusOr<v1::ExecuteResponse> Execute(v1::ExecuteRequest& request) override;
  absl::Status Upload(uint64_t handle, std::string_view device, std::string_view bytes) override;
  absl::StatusOr<std::string> Download(uint64_t handle, uint64_t bytes) override;

  uint64_t max_message_bytes() const override;

  // The answer of the daemon when the connection was made: devices and limits.
  const v1::HelloResponse& hello() const;
  // Ends the Execute of this request id, see uopd.proto. May be called from any thread.
  absl::Status CancelExecute(uint64_t request_id);
  absl::StatusOr<v1::PrepareResponse> Prepare(v1::PrepareRequest& request);
  // The queries (UOPD_QUERY in methods.def), by their names in the protocol. They need no session.
#define UOPD_UNARY(name)
#define UOPD_QUERY(name) \
  absl::StatusOr<v1::name##Response> name(const v1::name##Request& request = {});
#define UOPD_STREAM(name)
#include "proto/methods.def"
#undef UOPD_UNARY
#undef UOPD_QUERY
#undef UOPD_STREAM

 private:
  struct Impl;
  explicit Connection(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace uopd::client
