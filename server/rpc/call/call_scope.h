// SPDX-License-Identifier: MIT
// One RPC from its arrival to its end: its deadline, cancellation, request id, gauge, histogram and
// log line.
//
// Owned by the RPC. Used by one thread at a time.
#pragma once
#include <google/protobuf/message.h>
#include <grpcpp/server_context.h>

#include "server/engine/engine.h"
#include "server/rpc/call/audience.h"
#include "server/rpc/call/token_check.h"

namespace uopd::rpc {

// The request context of one message of a call. Its limits are those of the RPC.
engine::RequestContext ContextOf(grpc::CallbackServerContext& context);

// The peer that calls: the address without its port, or "unix" for every Unix socket.
std::string PeerOf(const grpc::CallbackServerContext& context);
// The tenant of the call, by its token. UNAUTHENTICATED: the daemon requires a token, and the call
// has no valid one.
absl::StatusOr<std::string> TenantOf(const engine::Engine& engine,
                                     const grpc::CallbackServerContext& context);
// Names the caller for fair shares: by session if the call names one, otherwise by connection. Does
// not change the tenant.
void NameCaller(const grpc::CallbackServerContext& context, std::string_view session,
                engine::Caller& caller);
// RESOURCE_EXHAUSTED: the peer begins too many calls.
absl::Status AdmitCall(engine::Engine& engine, const grpc::CallbackServerContext& context);

// The status for a call that is refused before it is admitted: `why`, or RESOURCE_EXHAUSTED if such
// calls of the peer are too many. They have an allowance of their own: whoever has no token does
// not use up the calls of others at its address.
absl::Status RefuseCall(engine::Engine& engine, const grpc::CallbackServerContext& context,
                        absl::Status why);

// What the daemon holds for a message: its memory, and the gRPC operations that carry it.
int64_t BytesOf(const google::protobuf::Message& message);

class CallScope {
 public:
  CallScope(engine::Engine& engine, grpc::CallbackServerContext& context, Method method);
  CallScope(const CallScope&) = delete;
  CallScope& operator=(const CallScope&) = delete;

  // OK if the daemon accepts the call.
  const absl::Status& admitted() const { return admitted_; }
  engine::RequestContext& request() { return request_; }
  const std::string& tenant() const { return request_.caller.tenant; }
  // Whether the caller's token is still what it was (token_check.h). For streams, which outlive
  // changes of the tokens. Any thread.
  absl::Status CheckToken() { return token_.Check(request_.caller); }
  // For streams that may be idle: the messages then hold Works of their own.
  void ReleaseWork() { work_ = {}; }
  // Counts and logs the end of the call, and returns the status to send. Called exactly once.
  grpc::Status End(const absl::Status& status) { return End(status, status); }
  // The same, where `counted` says how the call ended for the daemon: a client that has what it
  // wants and goes is no failure.
  grpc::Status End(const absl::Status& status, const absl::Status& counted);

 private:
  engine::Engine& engine_;
  const Method method_;
  TokenCheck token_;  // knows the tokens before the caller is looked up
  engine::RequestContext request_;
  engine::Work work_;
  absl::Status admitted_;
};

}  // namespace uopd::rpc
