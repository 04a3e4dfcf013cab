// SPDX-License-Identifier: MIT
// Unary calls: where the work of a call runs, and the single place where it ends.
//
// The thread that receives a call belongs to gRPC and serves other calls too. So it runs only work
// that takes microseconds. Other work goes to the engine's task pool; calls of a session go there
// in the order of its strand. A program that is not prepared yet is prepared on threads for that
// purpose. The call and its turn in the session wait for it without a thread.
#pragma once
#include <memory>
#include <string>
#include <utility>

#include "server/rpc/call/answer_reactor.h"
#include "server/rpc/call/call_scope.h"
#include "server/rpc/call/calls.h"

namespace uopd::rpc {

// A call as gRPC gives it. The messages are valid until the reactor's OnDone.
struct Incoming {
  grpc::CallbackServerContext* context;
  Method method;
  const google::protobuf::Message& request;
  const google::protobuf::Message& response;
  StreamWatch& watch;  // of answers that are not read
};

// One call on the heap. It exists while its work waits elsewhere.
class UnaryCall {
 public:
  UnaryCall(engine::Engine& engine, const Incoming& incoming)
      : engine_(engine), incoming_(incoming), scope_(engine, *incoming.context, incoming.method) {}

  engine::Engine& engine() { return engine_; }
  CallScope& scope() { return scope_; }
  engine::RequestContext& request() { return scope_.request(); }

  // Called before the call waits. Takes a place and the memory among the calls that may wait. From
  // now on the client may leave at any time. After success, reactor() is not null.
  absl::Status Admit(std::string_view session = {}) {
    NameSession(session);
    NameCaller(*incoming_.context, session, request().caller);
    UOPD_ASSIGN(engine::Charge held, engine_.clients().ChargeMessage(BytesOf(incoming_.request)));
    UOPD_ASSIGN(admission_, engine_.task_pool().Admit(request().caller));
    auto cancellation = std::make_shared<engine::Cancellation>();
    request().EndWith(cancellation);
    // Deletes itself in OnDone.
    reactor_ = new AnswerReactor(incoming_.watch, std::move(cancellation), std::move(held));
    return absl::OkStatus();
  }
  // The session that the call names. The name stays as long as the request.
  void NameSession(std::string_view session) { session_ = session; }
  // RESOURCE_EXHAUSTED: the client leaves too many answers unread, so nothing is computed for it
  // now.
  absl::Status CheckUnread() {
    if (!engine_.clients().unread.crowded()) return absl::OkStatus();
    if (request().caller.peer.empty()) NameCaller(*incoming_.context, session_, request().caller);
    return engine_.clients().unread.Check(request().caller);
  }
  engine::Admission TakeAdmission() { return std::move(admission_); }
  grpc::ServerUnaryReactor* reactor() {
    if (reactor_ == nullptr) reactor_ = new AnswerReactor(incoming_.watch);
    return reactor_;
  }
  void Finish(absl::Status status) {
    admission_.Leave();  // before the answer, so that the client's next call finds a place
    reactor();
    if (status.ok())
      status = reactor_->Hold(engine_, *incoming_.context, session_, request().caller,
                              incoming_.response);
    reactor_->Finish(scope_.End(status));
  }
  // Ends the wait that began at `since_ns`. OK: the work begins now.
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
  std::string_view session_;
  AnswerReactor* reactor_ = nullptr;
};

using UnaryCallPtr = std::unique_ptr<UnaryCall>;

inline grpc::ServerUnaryReactor* FinishHere(UnaryCall& call, const absl::Status& status) {
  grpc::ServerUnaryReactor* const reactor = call.reactor();
  call.Finish(status);
  return reactor;
}

// Lets the call wait, in the session if one is named. start(call) begins its work. Other code
// finishes the call.
template <class Start>
grpc::ServerUnaryReactor* ServeLater(UnaryCallPtr call, std::string_view session_id,
                                     Start&& start) {
  const absl::Status status = call->Admit(session_id);
  if (!status.ok()) return FinishHere(*call, status);
  grpc::ServerUnaryReactor* const reactor = call->reactor();
  start(std::move(call));
  return reactor;
}

// Calls body(RequestContext&) -> absl::Status on this thread if `quick()`, otherwise on the task
// pool.
template <class Quick, class Body>
grpc::ServerUnaryReactor* Serve(engine::Engine& engine, const Incoming& incoming, Quick&& quick,
                                Body body) {
  auto call = std::make_unique<UnaryCall>(engine, incoming);
  const absl::Status status = call->scope().admitted();
  if (!status.ok()) return FinishHere(*call, status);
  if (quick()) return FinishHere(*call, body(call->request()));
  return ServeLater(std::move(call), {}, [&](UnaryCallPtr waiting) {
    const engine::RequestContext& request = waiting->request();
    engine.task_pool().Post(request, [call = std::move(waiting), body = std::move(body)]() mutable {
      absl::Status begun = call->EndQueue();
      if (begun.ok()) begun = body(call->request());
      call->Finish(begun);
    });
  });
}

// Calls body(RequestContext&, Session&) -> absl::Status in the order of the session. It runs on
// this thread if no call is ahead and `quick()`.
template <class Quick, class Body>
grpc::ServerUnaryReactor* ServeSession(engine::Engine& engine, const Incoming& incoming,
                                       const std::string& session_id, Quick&& quick, Body body) {
  auto call = std::make_unique<UnaryCall>(engine, incoming);
  absl::Status status = call->scope().admitted();
  if (!status.ok()) return FinishHere(*call, status);
  auto session = engine.sessions().Use(session_id, call->scope().tenant());
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

// For Prepare: start(RequestContext&, Done) answers when the program is prepared.
template <class Start>
grpc::ServerUnaryReactor* ServePrepare(engine::Engine& engine, const Incoming& incoming,
                                       const std::string& session_id, Start start) {
  auto call = std::make_unique<UnaryCall>(engine, incoming);
  const absl::Status status = call->scope().admitted();
  if (!status.ok()) return FinishHere(*call, status);
  engine::SessionUse session;
  if (!session_id.empty()) {
    auto used = engine.sessions().Use(session_id, call->scope().tenant());
    if (!used.ok()) return FinishHere(*call, used.status());
    session = *std::move(used);
  }
  return ServeLater(std::move(call), session_id, [&](UnaryCallPtr waiting) {
    engine::RequestContext& request = waiting->request();
    start(request, [call = std::move(waiting),
                    session = std::move(session)](const absl::Status& prepared) mutable {
      session = {};
      call->Finish(prepared);
    });
  });
}

// For Run: start(RequestContext&, ResolvedRequest, Where, Done) works on this thread if that takes
// microseconds.
template <class Start>
grpc::ServerUnaryReactor* ServeRun(engine::Engine& engine, const Incoming& incoming,
                                   const v1::RunRequest& message, Start start) {
  auto call = std::make_unique<UnaryCall>(engine, incoming);
  absl::Status status = call->scope().admitted();
  if (status.ok()) status = call->CheckUnread();
  if (!status.ok()) return FinishHere(*call, status);
  engine::ResolvedRequest wanted = Resolve(engine, message);
  const bool quick = IsQuick(wanted, message);
  const auto begin = [&](UnaryCallPtr begun) {
    engine::RequestContext& request = begun->request();
    start(request, std::move(wanted), quick ? Where::kHere : Where::kOnTaskPool,
          [call = std::move(begun)](const absl::Status& ended) { call->Finish(ended); });
  };
  if (!quick) return ServeLater(std::move(call), {}, begin);
  grpc::ServerUnaryReactor* const reactor = call->reactor();
  begin(std::move(call));
  return reactor;
}

// For Execute: start(RequestContext&, Session&, ResolvedRequest, Done) works in the order of the
// session and holds its turn until Done. It works on this thread if no call is ahead and the work
// takes microseconds, else on a thread of the task pool.
template <class Start>
grpc::ServerUnaryReactor* ServeExecute(engine::Engine& engine, const Incoming& incoming,
                                       const v1::ExecuteRequest& message, Start start) {
  const std::string& session_id = message.session_id();
  auto call = std::make_unique<UnaryCall>(engine, incoming);
  call->NameSession(session_id);
  absl::Status status = call->scope().admitted();
  if (status.ok()) status = call->CheckUnread();
  if (!status.ok()) return FinishHere(*call, status);
  auto used = engine.sessions().Use(session_id, call->scope().tenant());
  if (!used.ok()) return FinishHere(*call, used.status());
  engine::Session& session = **used;
  engine::ResolvedRequest wanted = Resolve(engine, message);
  if (IsQuick(wanted, message) && !session.buffers().HasUnfilled() && session.strand().TryEnter()) {
    grpc::ServerUnaryReactor* const reactor = call->reactor();
    engine::RequestContext& request = call->request();
    start(
        request, session, std::move(wanted),
        [call = std::move(call), held = *std::move(used)](const absl::Status& ended) {
          held->strand().Leave();  // before the answer: the client's next call finds nothing ahead
          call->Finish(ended);
        });
    return reactor;
  }
  return ServeLater(std::move(call), session_id, [&](UnaryCallPtr waiting) {
    engine::RequestContext& request = waiting->request();
    engine::Admission admission = waiting->TakeAdmission();
    // CancelExecute ends the wait for a turn as well.
    const uint64_t id = message.request_id();
    if (id != 0) session.cancelled().Watch(id, request.cancellation);
    session.strand().Post(
        std::move(admission), request,
        [call = std::move(waiting), held = *std::move(used), wanted = std::move(wanted), start,
         id](engine::Strand::Turn turn) mutable {
          absl::Status begun = call->EndQueue();
          if (id != 0) held->cancelled().Unwatch(id);
          if (!begun.ok() && held->cancelled().Has(id)) begun = engine::CancelledById(id);
          if (begun.ok()) begun = call->CheckUnread();  // those ahead may have left theirs unread
          engine::RequestContext& request = call->request();
          engine::Session& session = *held;
          auto done = [call = std::move(call), held = std::move(held),
                       turn = std::move(turn)](const absl::Status& ended) mutable {
            turn.End();
            call->Finish(ended);
          };
          if (!begun.ok()) return done(begun);
          start(request, session, std::move(wanted), std::move(done));
        });
  });
}

}  // namespace uopd::rpc
