// SPDX-License-Identifier: MIT
// Unary calls: where the work of a call runs, and its one ending.
//
// The thread that receives a call belongs to gRPC and serves others too, so only what takes
// microseconds runs on it; the rest goes to the engine's executor, and calls of a session in the
// order of its strand. A program that is not there yet is prepared on threads for that, and the
// call, and its turn in the session, wait without one.
#pragma once
#include <memory>
#include <string>
#include <utility>

#include "server/rpc/call_scope.h"
#include "server/rpc/calls.h"

namespace uopd::rpc {

// A call as gRPC gives it; the messages are there until the reactor's OnDone.
struct Incoming {
  grpc::CallbackServerContext* context;
  Method method;
  const google::protobuf::Message& request;
  const google::protobuf::Message& response;
};

// Of a call that waits: says when its client leaves, and is charged for its messages.
class WaitingReactor final : public grpc::ServerUnaryReactor {
 public:
  WaitingReactor(std::shared_ptr<engine::Cancellation> cancellation, engine::Charge request)
      : cancellation_(std::move(cancellation)), request_(std::move(request)) {}
  void Hold(engine::Charge answer) { answer_ = std::move(answer); }
  void OnCancel() override { cancellation_->Cancel(); }
  void OnDone() override { delete this; }

 private:
  const std::shared_ptr<engine::Cancellation> cancellation_;
  const engine::Charge request_;
  engine::Charge answer_;
};

// One call on the heap, while its work waits elsewhere.
class UnaryCall {
 public:
  UnaryCall(engine::Engine& engine, const Incoming& incoming)
      : engine_(engine), incoming_(incoming), scope_(engine, *incoming.context, incoming.method) {}

  engine::Engine& engine() { return engine_; }
  CallScope& scope() { return scope_; }
  engine::RequestContext& request() { return scope_.request(); }

  // Before it waits: the place and the memory among those that may, for whom, and from now on the
  // client may leave at any time. Then reactor() is there.
  absl::Status Admit(std::string_view session = {}) {
    request().caller = CallerOf(*incoming_.context, session);
    UOPD_ASSIGN(engine::Charge held,
                engine::Charge::Take(engine_.client_bytes(), BytesOf(incoming_.request),
                                     engine::ByteClass::kMessages));
    UOPD_ASSIGN(admission_, engine_.executor().Admit(request().caller));
    auto cancellation = std::make_shared<engine::Cancellation>();
    request().EndWith(cancellation);
    // Deletes itself in OnDone.
    reactor_ = waiting_ = new WaitingReactor(std::move(cancellation), std::move(held));
    return absl::OkStatus();
  }
  engine::Admission TakeAdmission() { return std::move(admission_); }
  grpc::ServerUnaryReactor* reactor() {
    if (reactor_ == nullptr) reactor_ = incoming_.context->DefaultReactor();
    return reactor_;
  }
  void Finish(const absl::Status& status) {
    admission_.Leave();  // before the answer: the client's next call finds the place
    if (waiting_ != nullptr) {
      waiting_->Hold(engine::Charge::Always(engine_.client_bytes(), BytesOf(incoming_.response),
                                            engine::ByteClass::kAnswers));
    }
    reactor()->Finish(scope_.End(status));
  }
  // After waiting since then. OK: the work begins now.
  absl::Status EndQueue(int64_t since_ns) {
    request().timings.Add(Phase::kQueue, NowNs() - since_ns);
    return request().Check();
  }
  absl::Status EndQueue() { return EndQueue(request().start_ns); }

 private:
  engine::Engine& engine_;
  const Incoming incoming_;
  CallScope scope_;
  engine::Admission admission_;
  grpc::ServerUnaryReactor* reactor_ = nullptr;
  WaitingReactor* waiting_ = nullptr;  // the same, where the call waits
};

using UnaryCallPtr = std::unique_ptr<UnaryCall>;

inline grpc::ServerUnaryReactor* FinishHere(UnaryCall& call, const absl::Status& status) {
  grpc::ServerUnaryReactor* const reactor = call.reactor();
  call.Finish(status);
  return reactor;
}

// The call waits, in the session if one is named: start(call) begins its work, and somebody else
// finishes it.
template <class Start>
grpc::ServerUnaryReactor* ServeLater(UnaryCallPtr call, std::string_view session_id,
                                     Start&& start) {
  const absl::Status status = call->Admit(session_id);
  if (!status.ok()) return FinishHere(*call, status);
  grpc::ServerUnaryReactor* const reactor = call->reactor();
  start(std::move(call));
  return reactor;
}

// Calls body(RequestContext&) -> absl::Status here if `quick()`, else on the executor.
template <class Quick, class Body>
grpc::ServerUnaryReactor* Serve(engine::Engine& engine, const Incoming& incoming, Quick&& quick,
                                Body body) {
  auto call = std::make_unique<UnaryCall>(engine, incoming);
  const absl::Status status = call->scope().admitted();
  if (!status.ok()) return FinishHere(*call, status);
  if (quick()) return FinishHere(*call, body(call->request()));
  return ServeLater(std::move(call), {}, [&](UnaryCallPtr waiting) {
    const engine::RequestContext& request = waiting->request();
    engine.executor().Post(request, [call = std::move(waiting), body = std::move(body)]() mutable {
      absl::Status begun = call->EndQueue();
      if (begun.ok()) begun = body(call->request());
      call->Finish(begun);
    });
  });
}

// Calls body(RequestContext&, Session&) -> absl::Status in the order of the session: here if
// nothing is ahead and `quick()`.
template <class Quick, class Body>
grpc::ServerUnaryReactor* ServeSession(engine::Engine& engine, const Incoming& incoming,
                                       const std::string& session_id, Quick&& quick, Body body) {
  auto call = std::make_unique<UnaryCall>(engine, incoming);
  absl::Status status = call->scope().admitted();
  if (!status.ok()) return FinishHere(*call, status);
  auto session = engine.sessions().Use(session_id);
  if (!session.ok()) return FinishHere(*call, session.status());
  engine::Strand& strand = (*session)->strand();
  if (quick() && strand.TryEnter()) {
    status = body(call->request(), **session);
    strand.Leave();  // before the answer: the next call of this client finds nothing ahead
    return FinishHere(*call, status);
  }
  return ServeLater(std::move(call), session_id, [&](UnaryCallPtr waiting) {
    const engine::RequestContext& request = waiting->request();
    engine::Admission admission = waiting->TakeAdmission();
    strand.Post(std::move(admission), request,
                [call = std::move(waiting), session = *std::move(session),
                 body](engine::Strand::Turn turn) mutable {
                  absl::Status begun = call->EndQueue();
                  if (begun.ok()) begun = body(call->request(), *session);
                  turn.End();
                  call->Finish(begun);
                });
  });
}

// Prepare: body(RequestContext&) -> absl::Status answers once the program is there.
template <class Body>
grpc::ServerUnaryReactor* ServePrepare(engine::Engine& engine, const Incoming& incoming,
                                       const v1::PrepareRequest& request, Body body) {
  auto call = std::make_unique<UnaryCall>(engine, incoming);
  const absl::Status status = call->scope().admitted();
  if (!status.ok()) return FinishHere(*call, status);
  engine::SessionUse session;
  if (!request.session_id().empty()) {
    auto used = engine.sessions().Use(request.session_id());
    if (!used.ok()) return FinishHere(*call, used.status());
    session = *std::move(used);
  }
  return ServeLater(std::move(call), request.session_id(), [&](UnaryCallPtr waiting) {
    engine::RequestContext& context_of_call = waiting->request();
    const Wanted wanted = WantedBy(request);
    engine.PrepareThen(context_of_call, wanted.graph, wanted.options,
                       [call = std::move(waiting), session = std::move(session),
                        body](absl::Status prepared) mutable {
                         if (prepared.ok()) prepared = body(call->request());
                         session = {};
                         call->Finish(prepared);
                       });
  });
}

// Run: body(RequestContext&) -> absl::Status runs on the executor once the program is there; here
// if that takes microseconds.
template <class Body>
grpc::ServerUnaryReactor* ServeRun(engine::Engine& engine, const Incoming& incoming,
                                   const v1::RunRequest& request, Body body) {
  auto call = std::make_unique<UnaryCall>(engine, incoming);
  const absl::Status status = call->scope().admitted();
  if (!status.ok()) return FinishHere(*call, status);
  if (IsQuick(engine, request)) return FinishHere(*call, body(call->request()));
  return ServeLater(std::move(call), {}, [&](UnaryCallPtr waiting) {
    engine::RequestContext& context_of_call = waiting->request();
    const Wanted wanted = WantedBy(request);
    engine.PrepareThen(context_of_call, wanted.graph, wanted.options,
                       [call = std::move(waiting), body](absl::Status prepared) mutable {
                         if (!prepared.ok()) return call->Finish(prepared);
                         const engine::RequestContext& ready = call->request();
                         engine::Executor& runner = call->engine().RunnerOf(ready);
                         runner.Post(ready,
                                     [call = std::move(call), body, since = NowNs()]() mutable {
                                       absl::Status begun = call->EndQueue(since);
                                       if (begun.ok()) begun = body(call->request());
                                       call->Finish(begun);
                                     });
                       });
  });
}

// Execute: body(RequestContext&, Session&) -> absl::Status runs in the order of the session, once
// the program is there; here if nothing is ahead and that takes microseconds.
template <class Body>
grpc::ServerUnaryReactor* ServeExecute(engine::Engine& engine, const Incoming& incoming,
                                       const v1::ExecuteRequest& request, Body body) {
  auto call = std::make_unique<UnaryCall>(engine, incoming);
  absl::Status status = call->scope().admitted();
  if (!status.ok()) return FinishHere(*call, status);
  auto session = engine.sessions().Use(request.session_id());
  if (!session.ok()) return FinishHere(*call, session.status());
  engine::Strand& strand = (*session)->strand();
  if (IsQuick(engine, request) && strand.TryEnter()) {
    status = body(call->request(), **session);
    strand.Leave();  // before the answer: the next call of this client finds nothing ahead
    return FinishHere(*call, status);
  }
  auto take_turn = [&engine, &request, body](UnaryCallPtr call, engine::SessionUse session,
                                             engine::Strand::Turn turn) mutable {
    engine::RequestContext& context_of_call = call->request();
    const absl::Status begun = call->EndQueue();
    const Wanted wanted = WantedBy(request);
    // For a session that was closed meanwhile nothing is prepared: the body says so.
    const bool there =
        begun.ok() &&
        (session->closed() || engine.FindPrepared(context_of_call, wanted.graph, wanted.options));
    auto run = [call = std::move(call), session = std::move(session), turn = std::move(turn),
                body](absl::Status prepared) mutable {
      if (prepared.ok()) prepared = body(call->request(), *session);
      turn.End();
      call->Finish(prepared);
    };
    if (!begun.ok()) return run(begun);
    // This thread is one of the executor.
    if (there && &engine.RunnerOf(context_of_call) == &engine.executor())
      return run(absl::OkStatus());
    auto post = [&engine, &context_of_call, run = std::move(run)](absl::Status prepared) mutable {
      if (!prepared.ok()) return run(std::move(prepared));
      engine.RunnerOf(context_of_call)
          .Post(context_of_call, [&context_of_call, run = std::move(run)]() mutable {
            run(context_of_call.Check());
          });
    };
    if (there) return post(absl::OkStatus());
    engine.PrepareThen(context_of_call, wanted.graph, wanted.options, std::move(post));
  };
  return ServeLater(std::move(call), request.session_id(), [&](UnaryCallPtr waiting) {
    const engine::RequestContext& context_of_call = waiting->request();
    engine::Admission admission = waiting->TakeAdmission();
    strand.Post(std::move(admission), context_of_call,
                [call = std::move(waiting), session = *std::move(session),
                 take_turn = std::move(take_turn)](engine::Strand::Turn turn) mutable {
                  take_turn(std::move(call), std::move(session), std::move(turn));
                });
  });
}

}  // namespace uopd::rpc
