// SPDX-License-Identifier: MIT
// Unary calls: where the work of a call runs, and its one ending.
//
// The thread that receives a call belongs to gRPC and serves others too, so only what takes microseconds runs on it; the
// rest goes to the engine's executor, and calls of a session in the order of its strand.
#pragma once
#include <memory>
#include <string>
#include <utility>

#include "server/rpc/call_scope.h"

namespace uopd::rpc {

// One call on the heap, while its work waits elsewhere.
class UnaryCall {
 public:
  UnaryCall(engine::Engine& engine, grpc::CallbackServerContext* context, Method method)
      : engine_(engine), reactor_(context->DefaultReactor()), scope_(engine, *context, method) {}

  engine::Engine& engine() { return engine_; }
  grpc::ServerUnaryReactor* reactor() { return reactor_; }
  CallScope& scope() { return scope_; }
  engine::RequestContext& request() { return scope_.request(); }
  void Finish(const absl::Status& status) { reactor_->Finish(scope_.End(status)); }
  // The work begins now, after waiting since the arrival.
  void EndQueue() { request().timings.Add(Phase::kQueue, NowNs() - request().start_ns); }

 private:
  engine::Engine& engine_;
  grpc::ServerUnaryReactor* const reactor_;
  CallScope scope_;
};

// Calls body(RequestContext&) -> absl::Status here if `quick()`, else on the executor.
template <class Quick, class Body>
grpc::ServerUnaryReactor* Serve(engine::Engine& engine, grpc::CallbackServerContext* context,
                                Method method, Quick&& quick, Body body) {
  auto call = std::make_unique<UnaryCall>(engine, context, method);
  grpc::ServerUnaryReactor* const reactor = call->reactor();
  absl::Status status = call->scope().admitted();
  if (status.ok()) {
    if (quick()) {
      status = body(call->request());
    } else {
      status = engine.executor().Admit();
      if (status.ok()) {
        engine.executor().Post([call = std::move(call), body = std::move(body)]() mutable {
          call->EndQueue();
          call->Finish(body(call->request()));
          engine::Executor& executor = call->engine().executor();
          call = nullptr;
          executor.Leave();
        });
        return reactor;
      }
    }
  }
  call->Finish(status);
  return reactor;
}

// Calls body(RequestContext&, Session&) -> absl::Status in the order of the session: here if nothing is ahead and
// `quick()`.
template <class Quick, class Body>
grpc::ServerUnaryReactor* ServeSession(engine::Engine& engine, grpc::CallbackServerContext* context,
                                       Method method, const std::string& session_id, Quick&& quick,
                                       Body body) {
  auto call = std::make_unique<UnaryCall>(engine, context, method);
  grpc::ServerUnaryReactor* const reactor = call->reactor();
  absl::Status status = call->scope().admitted();
  if (status.ok()) {
    auto session = engine.sessions().Use(session_id);
    status = session.status();
    if (status.ok()) {
      engine::Strand& strand = (*session)->strand();
      if (quick() && strand.TryEnter()) {
        status = body(call->request(), **session);
        strand.Leave();  // before the answer: the next call of this client finds nothing ahead
      } else {
        // The task owns the call only once it is queued.
        UnaryCall* const waiting = call.release();
        status = strand.Post([waiting, session = *std::move(session), body]() mutable {
          std::unique_ptr<UnaryCall> owned(waiting);
          owned->EndQueue();
          owned->Finish(body(owned->request(), *session));
        });
        if (status.ok()) return reactor;
        call.reset(waiting);
      }
    }
  }
  call->Finish(status);
  return reactor;
}

}  // namespace uopd::rpc
