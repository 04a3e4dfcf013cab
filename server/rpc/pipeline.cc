// SPDX-License-Identifier: MIT
#include <atomic>
#include <memory>
#include <optional>

#include "server/net/stream_flow.h"
#include "server/rpc/call_scope.h"
#include "server/rpc/calls.h"
#include "server/rpc/status.h"
#include "server/rpc/streams.h"

namespace uopd::rpc {
namespace {

struct Request {
  v1::PipelineRequest message;
  int64_t held = 0;  // bytes
  engine::Charge charge;
  absl::Status refused;  // not OK: there is no memory for what it says
  size_t bytes() const { return static_cast<size_t>(held); }
};

// With the work that it was: a drain waits until the client has the answer.
struct Answer {
  v1::PipelineResponse message;
  engine::Work work;
  int64_t held = 0;  // bytes
  engine::Charge charge;
  size_t bytes() const { return static_cast<size_t>(held); }
};

// Kept alive by itself until OnDone, and by whoever works in it.
class Pipeline final : public grpc::ServerBidiReactor<v1::PipelineRequest, v1::PipelineResponse>,
                       private net::StreamFlow<Request, Answer>,
                       public WatchedStream,
                       public std::enable_shared_from_this<Pipeline> {
 public:
  Pipeline(engine::Engine& engine, StreamWatch& watch, const StreamLimits& limits,
           grpc::CallbackServerContext* context)
      : StreamFlow(limits.pipeline_bytes),
        engine_(engine),
        watch_(watch),
        context_(*context),
        scope_(engine, *context, Method::kPipeline) {
    // The scope's Work is given back at once: an idle stream must not hold up a drain. Messages
    // take their own.
    scope_.ReleaseWork();
  }

  void Start() {
    self_ = shared_from_this();
    watch_.Add(self_);
    if (scope_.admitted().ok()) {
      Begin();
    } else {
      Finish(scope_.End(scope_.admitted()));
    }
  }

  void OnReadDone(bool ok) override {
    const auto alive = shared_from_this();
    Request read;
    if (ok) {
      read = Charged();
    }
    StreamFlow::OnReadDone(ok, std::move(read));
  }

  void OnWriteDone(bool ok) override {
    const auto alive = shared_from_this();
    wait_.End();  // cancelling only makes this write fail
    StreamFlow::OnWriteDone(ok);
  }

  void OnCancel() override {
    const auto alive = shared_from_this();
    cancellation_->Cancel();
  }

  // A client that sends nothing may do so for ever; one that does not take its answers may not.
  void EndIfIdle(int64_t now_ns, const WatchLimits& limits) override {
    if (wait_.Overdue(now_ns - WriteLimitNs(limits))) context_.TryCancel();
    if (!limits.draining) return;
    closed_.store(true, std::memory_order_relaxed);
    Close();
  }

  void OnDone() override {
    watch_.Remove(this);
    self_ = nullptr;  // *this may be gone
  }

 private:
  void StartRead() override { ServerBidiReactor::StartRead(&incoming_); }
  void StartWrite(const Answer& answer) override {
    wait_.Begin(NowNs());
    ServerBidiReactor::StartWrite(&answer.message);
  }
  void End() override {
    absl::Status status;
    if (context_.IsCancelled()) {
      status = absl::CancelledError("pipeline was cancelled");
    } else if (closed_.load(std::memory_order_relaxed)) {
      status = absl::UnavailableError("daemon is shutting down");
    }
    Finish(scope_.End(status));
  }

  // The message that was read. Where there is no memory for it, only its number is kept.
  Request Charged() {
    Request out;
    out.held = BytesOf(incoming_);
    auto charge =
        engine::Charge::Take(engine_.client_bytes(), out.held, engine::ByteClass::kMessages);
    out.refused = charge.status();
    if (charge.ok()) {
      out.charge = *std::move(charge);
      out.message = std::move(incoming_);
      incoming_.Clear();
    } else {
      out.message.set_sequence(incoming_.sequence());
      incoming_ = v1::PipelineRequest();  // Clear would keep its memory
      out.held = BytesOf(out.message);
    }
    return out;
  }

  // Only the one serving touches current_, charge_, answer_, request_, session_ and work_.
  std::optional<Answer> Serve(Request& request) override {
    current_ = std::move(request.message);
    charge_ = std::move(request.charge);
    request_ = ContextOf(context_);
    request_.EndWith(cancellation_);
    answer_.Clear();
    answer_.set_sequence(current_.sequence());
    if (!request.refused.ok()) return Answered(request.refused);
    auto work = engine_.Begin();
    if (!work.ok()) return Answered(work.status());
    work_ = *std::move(work);
    if (absl::Status status = AdmitCall(engine_, context_); !status.ok()) return Answered(status);
    if (current_.has_prepare()) return ServePrepare();
    auto session = engine_.sessions().Use(SessionId());
    if (!session.ok()) return Answered(session.status());
    session_ = *std::move(session);
    if (IsQuickCall() && session_->strand().TryEnter()) {
      const absl::Status status = Call();
      session_->strand().Leave();
      return Answered(status);
    }
    request_.caller = CallerOf(context_, SessionId());
    auto admission = engine_.executor().Admit(request_.caller);
    if (!admission.ok()) return Answered(admission.status());
    session_->strand().Post(*std::move(admission), request_,
                            [self = shared_from_this()](engine::Strand::Turn turn) mutable {
                              self->TakeTurn(std::move(turn));
                            });
    return std::nullopt;
  }

  // On a thread of the executor. A program that is not there yet is prepared without it.
  void TakeTurn(engine::Strand::Turn turn) {
    const absl::Status wanted_still = request_.Check();
    if (!wanted_still.ok() || !current_.has_execute())
      return EndTurn(std::move(turn), wanted_still);
    const Wanted wanted = WantedBy(current_.execute());
    // For a session that was closed meanwhile nothing is prepared: the call says so.
    const bool there =
        session_->closed() || engine_.FindPrepared(request_, wanted.graph, wanted.options);
    if (there && &engine_.RunnerOf(request_) == &engine_.executor())
      return EndTurn(std::move(turn), absl::OkStatus());
    auto post = [self = shared_from_this(), turn = std::move(turn)](absl::Status status) mutable {
      if (!status.ok()) return self->EndTurn(std::move(turn), status);
      self->engine_.RunnerOf(self->request_)
          .Post(self->request_, [self, turn = std::move(turn)]() mutable {
            self->EndTurn(std::move(turn), absl::OkStatus());
          });
    };
    if (there) return post(absl::OkStatus());
    engine_.PrepareThen(request_, wanted.graph, wanted.options, std::move(post));
  }
  void EndTurn(engine::Strand::Turn turn, absl::Status status) {
    if (status.ok()) status = Call();
    turn.End();  // the next call of this session finds nothing ahead
    OnServed(Answered(status));
  }

  std::optional<Answer> ServePrepare() {
    request_.caller = CallerOf(context_, current_.prepare().session_id());
    auto admission = engine_.executor().Admit(request_.caller);
    if (!admission.ok()) return Answered(admission.status());
    // By way of the executor: what is there at once would be answered inside of this call.
    engine_.executor().Post(
        request_, [self = shared_from_this(), admission = *std::move(admission)]() mutable {
          const Wanted wanted = WantedBy(self->current_.prepare());
          self->engine_.PrepareThen(
              self->request_, wanted.graph, wanted.options,
              [self, admission = std::move(admission)](absl::Status status) mutable {
                if (status.ok()) {
                  status = Prepare(self->engine_, self->request_, self->current_.prepare(),
                                   self->answer_.mutable_prepare());
                }
                admission.Leave();
                self->OnServed(self->Answered(status));
              });
        });
    return std::nullopt;
  }

  const std::string& SessionId() const {
    static const std::string kNone;
    switch (current_.call_case()) {
      case v1::PipelineRequest::kExecute:
        return current_.execute().session_id();
      case v1::PipelineRequest::kCreateBuffers:
        return current_.create_buffers().session_id();
      case v1::PipelineRequest::kFreeBuffers:
        return current_.free_buffers().session_id();
      case v1::PipelineRequest::kUpload:
        return current_.upload().session_id();
      case v1::PipelineRequest::kPrepare:
      case v1::PipelineRequest::CALL_NOT_SET:
        break;
    }
    return kNone;
  }

  bool IsQuickCall() {
    if (current_.has_execute()) return IsQuick(engine_, current_.execute());
    if (current_.has_create_buffers()) return IsQuick(current_.create_buffers());
    if (current_.has_upload()) return current_.upload().buffer().bytes() <= kMaxChunkBytes;
    return true;
  }

  absl::Status Call() {
    UOPD_TRY(request_.Check());
    switch (current_.call_case()) {
      case v1::PipelineRequest::kExecute:
        return Execute(engine_, request_, *session_, current_.execute(), answer_.mutable_execute());
      case v1::PipelineRequest::kCreateBuffers:
        return CreateBuffers(engine_, *session_, current_.create_buffers());
      case v1::PipelineRequest::kFreeBuffers:
        FreeBuffers(*session_, current_.free_buffers());
        return absl::OkStatus();
      case v1::PipelineRequest::kUpload: {
        const v1::UploadRequest& upload = current_.upload();
        const v1::BufferSpec& spec = upload.buffer();
        const uint64_t handle = spec.handle();
        UOPD_ASSIGN(const bool created,
                    engine_.OpenUpload(*session_, handle, spec.bytes(), spec.device()));
        uint64_t offset = upload.offset();
        absl::Status status = WriteChunk(engine_, *session_, handle, upload.data(), &offset);
        if (!status.ok() && created) session_->buffers().Free({&handle, 1});
        return status;
      }
      case v1::PipelineRequest::kPrepare:
      case v1::PipelineRequest::CALL_NOT_SET:
        break;
    }
    return absl::InvalidArgumentError("message has no call");
  }

  Answer Answered(const absl::Status& status) {
    if (!status.ok()) answer_.clear_result();
    FillError(status, &answer_);
    request_.timings.Observe();
    session_ = {};
    current_.Clear();
    charge_ = {};
    Answer out;
    out.held = BytesOf(answer_);
    // Bounded by limits.pipeline_bytes and one answer.
    out.charge =
        engine::Charge::Always(engine_.client_bytes(), out.held, engine::ByteClass::kAnswers);
    out.message = std::move(answer_);
    out.work = std::move(work_);
    return out;
  }

  engine::Engine& engine_;
  StreamWatch& watch_;
  grpc::CallbackServerContext& context_;
  CallScope scope_;

  v1::PipelineRequest incoming_;  // being read
  v1::PipelineRequest current_;   // being served
  engine::Charge charge_;         // of current_
  v1::PipelineResponse answer_;
  const std::shared_ptr<engine::Cancellation> cancellation_ =
      std::make_shared<engine::Cancellation>();  // of all calls of the stream
  engine::RequestContext request_;
  engine::SessionUse session_;
  engine::Work work_;
  ClientWait wait_;  // for an answer to be taken
  std::atomic<bool> closed_{false};
  std::shared_ptr<Pipeline> self_;  // from Start to OnDone
};

}  // namespace

grpc::ServerBidiReactor<v1::PipelineRequest, v1::PipelineResponse>* StartPipeline(
    engine::Engine& engine, StreamWatch& watch, const StreamLimits& limits,
    grpc::CallbackServerContext* context) {
  auto pipeline = std::make_shared<Pipeline>(engine, watch, limits, context);
  pipeline->Start();
  return pipeline.get();  // alive at least until gRPC has called OnDone
}

}  // namespace uopd::rpc
