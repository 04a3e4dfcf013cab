// SPDX-License-Identifier: MIT
#include <algorithm>
#include <atomic>
#include <memory>
#include <optional>

#include "core/base/text.h"
#include "server/engine/base/shutting_down.h"
#include "server/net/stream_flow.h"
#include "server/rpc/call/calls.h"
#include "server/rpc/call/status.h"
#include "server/rpc/stream/repetition.h"
#include "server/rpc/stream/stream_reactor.h"
#include "server/rpc/stream/streams.h"

namespace uopd::rpc {
namespace {

struct Request {
  v1::PipelineRequest message;
  Method method = Method::kPipeline;  // that the message stands for
  int64_t held = 0;                   // bytes
  engine::Charge charge;
  absl::Status refused;  // not OK: there was no memory for the message
  size_t bytes() const { return static_cast<size_t>(held); }
};

// Also holds the Work of the request, so a drain waits until the client has the answer.
struct Answer {
  v1::PipelineResponse message;
  engine::Work work;
  int64_t held = 0;  // bytes
  engine::Charge charge;
  engine::UnreadAnswers::Held unread;
  bool more = false;  // another one to the same request follows
  size_t bytes() const { return static_cast<size_t>(held); }
};

class Pipeline final
    : public StreamReactor<grpc::ServerBidiReactor<v1::PipelineRequest, v1::PipelineResponse>>,
      private net::StreamFlow<Request, Answer> {
 public:
  Pipeline(engine::Engine& engine, StreamWatch& watch, const StreamLimits& limits,
           grpc::CallbackServerContext* context)
      : StreamReactor(engine, watch, *context, Method::kPipeline),
        StreamFlow(limits.pipeline_bytes) {
    // Give the scope's Work back at once, because an idle stream must not delay a drain. Each
    // message takes its own Work.
    scope_.ReleaseWork();
  }

  void OnReadDone(bool ok) override {
    const auto alive = Alive(this);
    Request read;
    if (ok) {
      read = Charged();
    }
    StreamFlow::OnReadDone(ok, std::move(read));
  }

  void OnWriteDone(bool ok) override {
    const auto alive = Alive(this);
    EndWireWait();  // no effect if cancelled: this write then fails
    StreamFlow::OnWriteDone(ok);
  }

  // A client may send nothing for any time. A client that does not read its answers may not.
  void EndIfIdle(int64_t now_ns, const WatchLimits& limits) override {
    if (wait_.Overdue(now_ns - IdleLimitNs(limits, WaitFor::kRoom))) context_.TryCancel();
    const bool revoked = !scope_.CheckToken().ok();
    if (!limits.draining && !revoked) return;
    if (revoked) cancellation_->Cancel();
    closed_.store(true, std::memory_order_relaxed);
    Close();
  }

 private:
  absl::Status Begin() override {
    StreamFlow::Begin();
    return absl::OkStatus();
  }
  void StartRead() override { ServerBidiReactor::StartRead(&incoming_); }
  void StartWrite(const Answer& answer) override {
    BeginWait();
    ServerBidiReactor::StartWrite(&answer.message);
  }
  void End() override {
    absl::Status status;
    if (context_.IsCancelled()) {
      status = absl::CancelledError("pipeline was cancelled");
    } else if (closed_.load(std::memory_order_relaxed)) {
      status = scope_.CheckToken();
      if (status.ok()) status = engine::ShuttingDown();
    }
    // A client cancels its pipeline when it goes, and a daemon that ends closes what is idle.
    // Neither is a failure; what a client still waited for is counted by message.
    StreamReactor::End(status, absl::IsUnauthenticated(status) ? status : absl::OkStatus());
  }

  // The message that was read, with its charge. If there is no memory for it, only its number is
  // kept.
  Request Charged() {
    Request out;
    out.method = MethodOf(incoming_);
    out.held = BytesOf(incoming_);
    auto charge = engine_.clients().ChargeMessage(out.held);
    out.refused = charge.status();
    if (charge.ok()) {
      out.charge = *std::move(charge);
      out.message = std::move(incoming_);
      incoming_.Clear();
    } else {
      out.message.set_sequence(incoming_.sequence());
      out.message.set_epoch(incoming_.epoch());
      incoming_ = v1::PipelineRequest();  // Clear would keep its memory
      out.held = BytesOf(out.message);
    }
    return out;
  }

  // Only the thread that serves uses current_, method_, charge_, answer_, failed_epoch_, request_,
  // session_, wanted_, repetition_ and work_.
  std::optional<Answer> Serve(Request& request) override {
    if (!repetition_) {  // otherwise current_ is the next step
      current_ = std::move(request.message);
      charge_ = std::move(request.charge);
      method_ = request.method;
    }
    request_ = ContextOf(context_);
    request_.id = scope_.request().id;
    request_.trace = scope_.request().trace;
    request_.caller = scope_.request().caller;
    request_.EndWith(cancellation_);
    answer_.Clear();
    answer_.set_sequence(current_.sequence());
    if (current_.epoch() != 0 && current_.epoch() == failed_epoch_) {
      return Answered(absl::AbortedError(
          Cat("an earlier call of epoch ", current_.epoch(), " of the pipeline failed")));
    }
    if (!request.refused.ok()) return Answered(request.refused);
    if (current_.call_case() == v1::PipelineRequest::CALL_NOT_SET)
      return Answered(absl::InvalidArgumentError("the message has no call"));
    if (absl::Status status = scope_.CheckToken(); !status.ok()) return Answered(status);
    auto work = engine_.gate().Begin();
    if (!work.ok()) return Answered(work.status());
    work_ = *std::move(work);
    if (absl::Status status = AdmitCall(engine_, context_); !status.ok()) return Answered(status);
    // What frees memory, or sends data, has a small answer and goes on.
    if ((current_.has_execute() || current_.has_repeat() || current_.has_download()) &&
        engine_.clients().unread.crowded()) {
      NameCaller(context_, SessionId(), request_.caller);
      if (absl::Status status = engine_.clients().unread.Check(request_.caller); !status.ok())
        return Answered(status);
    }
    if (current_.has_prepare()) return ServePrepare();
    auto session = engine_.sessions().Use(SessionId(), scope_.tenant());
    if (!session.ok()) return Answered(session.status());
    session_ = *std::move(session);
    if (current_.has_repeat()) {
      if (absl::Status status = BeginRepeat(); !status.ok()) return Answered(status);
    }
    if (current_.has_execute()) wanted_ = Resolve(engine_, current_.execute());
    if (IsQuickCall() && session_->strand().TryEnter()) return ServeHere();
    NameCaller(context_, SessionId(), request_.caller);
    auto admission = engine_.task_pool().Admit(request_.caller);
    if (!admission.ok()) return Answered(admission.status());
    session_->strand().Post(*std::move(admission), request_,
                            [self = Alive(this)](engine::Strand::Turn turn) mutable {
                              self->TakeTurn(std::move(turn));
                            });
    return std::nullopt;
  }

  // From now on current_ is a step.
  absl::Status BeginRepeat() {
    UOPD_ASSIGN(repetition_, Repetition::Of(*current_.mutable_repeat()));
    v1::ExecuteRequest first = std::move(*current_.mutable_repeat()->mutable_execute());
    *current_.mutable_execute() = std::move(first);
    return absl::OkStatus();
  }

  // Calls the engine on this thread. An answer that is ready at once is returned. So a client that
  // sends a thousand calls is served in a loop.
  std::optional<Answer> ServeHere() {
    struct Handoff {
      std::atomic<bool> second{false};  // whoever comes second handles the answer
      std::optional<Answer> answer;
    };
    auto handoff = std::make_shared<Handoff>();
    Call([self = Alive(this), handoff](const absl::Status& status) {
      self->session_->strand().Leave();
      handoff->answer = self->Answered(status);
      if (handoff->second.exchange(true)) self->OnServed(*std::move(handoff->answer));
    });
    if (handoff->second.exchange(true)) return std::move(handoff->answer);
    return std::nullopt;
  }

  // Runs on a thread of the task pool.
  void TakeTurn(engine::Strand::Turn turn) {
    EndQueue();
    auto done = [self = Alive(this), turn = std::move(turn)](const absl::Status& status) mutable {
      turn.End();  // so that the session's next call finds nothing ahead
      self->OnServed(self->Answered(status));
    };
    Call(std::move(done));
  }

  // As the call Prepare: it renews the session, if one is named, and takes no turn there.
  std::optional<Answer> ServePrepare() {
    if (const std::string& id = SessionId(); !id.empty()) {
      auto session = engine_.sessions().Use(id, scope_.tenant());
      if (!session.ok()) return Answered(session.status());
      session_ = *std::move(session);
    }
    NameCaller(context_, SessionId(), request_.caller);
    auto admission = engine_.task_pool().Admit(request_.caller);
    if (!admission.ok()) return Answered(admission.status());
    // By way of the task pool. Otherwise a result that is ready at once would be answered inside
    // this call.
    engine_.task_pool().Post(request_, [self = Alive(this),
                                        admission = *std::move(admission)]() mutable {
      self->EndQueue();
      const v1::PrepareRequest& message = self->current_.prepare();
      rpc::Prepare(self->engine_,
                   {self->request_, Resolve(self->engine_, message), message,
                    self->answer_.mutable_prepare()},
                   [self, admission = std::move(admission)](const absl::Status& status) mutable {
                     admission.Leave();
                     self->OnServed(self->Answered(status));
                   });
    });
    return std::nullopt;
  }

  void EndQueue() { request_.timings.Add(Phase::kQueue, NowNs() - request_.start_ns); }

  // The call that a message stands for.
  static Method MethodOf(const v1::PipelineRequest& message) {
    switch (message.call_case()) {
      case v1::PipelineRequest::kExecute:
      case v1::PipelineRequest::kRepeat:
        return Method::kExecute;
      case v1::PipelineRequest::kCreateBuffers:
        return Method::kCreateBuffers;
      case v1::PipelineRequest::kFreeBuffers:
        return Method::kFreeBuffers;
      case v1::PipelineRequest::kUpload:
        return Method::kUpload;
      case v1::PipelineRequest::kDownload:
        return Method::kDownload;
      case v1::PipelineRequest::kPrepare:
        return Method::kPrepare;
      case v1::PipelineRequest::CALL_NOT_SET:
        break;
    }
    return Method::kPipeline;
  }

  const std::string& SessionId() const {
    static const std::string kNone;
    switch (current_.call_case()) {
      case v1::PipelineRequest::kExecute:
        return current_.execute().session_id();
      case v1::PipelineRequest::kRepeat:
        return current_.repeat().execute().session_id();
      case v1::PipelineRequest::kCreateBuffers:
        return current_.create_buffers().session_id();
      case v1::PipelineRequest::kFreeBuffers:
        return current_.free_buffers().session_id();
      case v1::PipelineRequest::kUpload:
        return current_.upload().session_id();
      case v1::PipelineRequest::kDownload:
        return current_.download().session_id();
      case v1::PipelineRequest::kPrepare:
        return current_.prepare().session_id();
      case v1::PipelineRequest::CALL_NOT_SET:
        break;
    }
    return kNone;
  }

  bool IsQuickCall() {
    if (current_.has_upload()) return IsQuick(*session_, current_.upload());
    if (current_.has_create_buffers()) return IsQuick(current_.create_buffers());
    if (session_->buffers().HasUnfilled()) return false;
    return !current_.has_execute() || IsQuick(*wanted_, current_.execute());
  }

  // Serves the message, in the turn of its session.
  void Call(Done done) {
    const absl::Status wanted_still = request_.Check();
    if (!wanted_still.ok()) return done(wanted_still);
    if (!current_.has_execute()) return done(CallAtOnce());
    if (repetition_ && repetition_->stop_before() != 0) {
      const absl::StatusOr<bool> stopped = IsStopped();
      if (stopped.ok() && *stopped) answer_.set_stopped(true);
      if (!stopped.ok() || *stopped) return done(stopped.status());
    }
    rpc::Execute(engine_, *session_,
                 {request_, *std::move(wanted_), current_.execute(), answer_.mutable_execute()},
                 std::move(done));
  }

  // Whether an earlier loop left its stop set. If the step has run already, it may have done that
  // itself.
  absl::StatusOr<bool> IsStopped() {
    const uint64_t handle = repetition_->stop_before();
    if (session_->results().Knows(current_.execute().request_id())) return false;
    const auto buffer = session_->buffers().Find(handle);
    if (buffer == nullptr) return false;  // the first step makes it
    std::string bytes(std::min<size_t>(buffer->size(), kMaxChunkBytes), '\0');
    UOPD_TRY(engine_.buffers().Read(*session_, handle, 0, bytes));
    return std::ranges::any_of(bytes, [](char byte) { return byte != 0; });
  }

  absl::Status CallAtOnce() {
    switch (current_.call_case()) {
      case v1::PipelineRequest::kCreateBuffers:
        return CreateBuffers(engine_, *session_, current_.create_buffers());
      case v1::PipelineRequest::kFreeBuffers:
        FreeBuffers(*session_, current_.free_buffers());
        return absl::OkStatus();
      case v1::PipelineRequest::kUpload:
        return UploadChunk(engine_, *session_, current_.upload());
      case v1::PipelineRequest::kDownload: {
        v1::DownloadResponse& answer = *answer_.mutable_download();
        UOPD_TRY(ReadChunk(engine_, *session_, current_.download(), answer.mutable_data()));
        return absl::OkStatus();
      }
      case v1::PipelineRequest::kExecute:
      case v1::PipelineRequest::kRepeat:
      case v1::PipelineRequest::kPrepare:
      case v1::PipelineRequest::CALL_NOT_SET:
        break;
    }
    return absl::InvalidArgumentError("message has no call");
  }

  // A small answer is not counted: the pipeline's own limit bounds all of them.
  absl::StatusOr<engine::UnreadAnswers::Held> HoldAnswer() {
    const int64_t bytes = HeldFor(answer_);
    if (bytes < engine::UnreadAnswers::kLeast) return engine::UnreadAnswers::Held();
    if (request_.caller.peer.empty()) NameCaller(context_, SessionId(), request_.caller);
    return engine_.clients().unread.Hold(request_.caller, bytes);
  }

  Answer Answered(absl::Status status) {
    Answer out;
    if (status.ok()) {
      auto unread = HoldAnswer();
      status = unread.status();
      if (unread.ok()) out.unread = *std::move(unread);
    }
    if (status.ok()) {
      out.more = repetition_ && !answer_.stopped() &&
                 repetition_->Next(*current_.mutable_execute(), answer_.execute());
      answer_.set_more(out.more);
      if (session_ && !out.more) session_->NoteServed(current_.sequence());
    } else {
      answer_.clear_result();
      // Nothing depends on calls of epoch 0.
      if (current_.epoch() != 0) failed_epoch_ = current_.epoch();
    }
    FillError(status, &answer_);
    RecordEnd(engine_, method_, request_, status);
    session_ = {};
    wanted_.reset();
    if (!out.more) {
      repetition_.reset();
      current_.Clear();
      charge_ = {};
    }
    out.held = BytesOf(answer_);
    // Bounded by limits.pipeline_bytes and one answer, and for all pipelines of a client by
    // UnreadAnswers.
    out.charge = engine::Charge::Always(engine_.clients().bytes, HeldFor(answer_),
                                        engine::ByteClass::kAnswers);
    out.message = std::move(answer_);
    out.work = std::move(work_);
    return out;
  }

  v1::PipelineRequest incoming_;       // being read
  v1::PipelineRequest current_;        // being served
  Method method_ = Method::kPipeline;  // of current_
  engine::Charge charge_;              // of current_
  v1::PipelineResponse answer_;
  uint64_t failed_epoch_ = 0;       // of the last call of an epoch that failed
  engine::RequestContext request_;  // of current_; the stream's cancellation ends it
  engine::SessionUse session_;
  std::optional<engine::ResolvedRequest> wanted_;  // of an Execute
  std::optional<Repetition> repetition_;           // that current_ is a step of
  engine::Work work_;
  std::atomic<bool> closed_{false};
};

}  // namespace

grpc::ServerBidiReactor<v1::PipelineRequest, v1::PipelineResponse>* StartPipeline(
    engine::Engine& engine, StreamWatch& watch, const StreamLimits& limits,
    grpc::CallbackServerContext* context) {
  return Pipeline::Start<Pipeline>(engine, watch, limits, context);
}

}  // namespace uopd::rpc
