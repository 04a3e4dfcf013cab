// SPDX-License-Identifier: MIT
// One RPC from its arrival to its end: deadline, cancellation, request id, gauge, histogram, log
// line.
//
// Belongs to the RPC; used by one thread at a time.
#pragma once
#include <google/protobuf/message.h>
#include <grpcpp/server_context.h>

#include "server/engine/engine.h"

namespace uopd::rpc {

enum class Method : uint8_t {
#define UOPD_UNARY(name) k##name,
#define UOPD_QUERY(name) k##name,
#define UOPD_STREAM(name) k##name,
#include "proto/methods.def"
#undef UOPD_UNARY
#undef UOPD_QUERY
#undef UOPD_STREAM
};

// The limits of one message of a call: those of the RPC that it came with.
engine::RequestContext ContextOf(grpc::CallbackServerContext& context);

// Who calls: the address without its port, "unix" for every Unix socket.
std::string PeerOf(const grpc::CallbackServerContext& context);
// Who asks, for fair shares: by session where the call names one, else by connection.
engine::Caller CallerOf(const grpc::CallbackServerContext& context, std::string_view session = {});
// RESOURCE_EXHAUSTED when the peer begins too many calls.
absl::Status AdmitCall(engine::Engine& engine, const grpc::CallbackServerContext& context);

// What the daemon holds for a message: its memory, and the operations of gRPC that carry it.
int64_t BytesOf(const google::protobuf::Message& message);

class CallScope {
 public:
  CallScope(engine::Engine& engine, grpc::CallbackServerContext& context, Method method);
  CallScope(const CallScope&) = delete;
  CallScope& operator=(const CallScope&) = delete;

  // Whether the daemon takes the call at all.
  const absl::Status& admitted() const { return admitted_; }
  engine::RequestContext& request() { return request_; }
  // For streams that may stay idle: whoever works holds a Work of its own.
  void ReleaseWork() { work_ = {}; }
  // Counts and logs the end, and says what to send. Called exactly once.
  grpc::Status End(const absl::Status& status);

 private:
  const Method method_;
  engine::RequestContext request_;
  engine::Work work_;
  absl::Status admitted_;
};

}  // namespace uopd::rpc
