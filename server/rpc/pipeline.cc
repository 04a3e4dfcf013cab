// SPDX-License-Identifier: MIT
#include <deque>

#include "core/base/mutex.h"
#include "server/rpc/call_scope.h"
#include "server/rpc/calls.h"
#include "server/rpc/status.h"
#include "server/rpc/streams.h"

namespace uopd::rpc {
namespace {

constexpr size_t kMaxHeld = 32;  // messages read and not yet answered; then reading stops

// Three things go on at the same time, each one message at a time: reading, serving (in order), writing.
//
//   read --> waiting_ --> served --> answers_ --> written
//
// The reactor ends when the client has said its last and all answers are written, or when the stream breaks and nothing
// goes on any more.
class Pipeline final : public grpc::ServerBidiReactor<v1::PipelineRequest, v1::PipelineResponse> {
 public:
  Pipeline(engine::Engine& engine, grpc::CallbackServerContext* context)
      : engine_(engine), context_(*context), scope_(engine, *context, Method::kPipeline) {
    // The scope's Work is given back at once: an idle stream must not hold up a drain. Messages take their own.
    scope_.ReleaseWork();
    if (scope_.admitted().ok()) {
      reading_ = true;
      StartRead(&incoming_);
    } else {
      ended_ = true;
      Finish(scope_.End(scope_.admitted()));
    }
  }

  void OnReadDone(bool ok) override {
    {
      MutexLock lock(mu_);
      reading_ = false;
      if (ok) {
        waiting_.push_back(std::move(incoming_));
        incoming_.Clear();
      } else {
        last_read_ = true;
      }
    }
    Advance();
  }

  void OnWriteDone(bool ok) override {
    {
      MutexLock lock(mu_);
      writing_ = false;
      answers_.pop_front();
      if (!ok) broken_ = true;
    }
    Advance();
  }

  void OnDone() override { delete this; }

 private:
  // Starts whatever can go on.
  void Advance() {
    bool serve = false;
    bool end = false;
    {
      MutexLock lock(mu_);
      if (broken_) waiting_.clear();
      if (!serving_ && !waiting_.empty()) {
        current_ = std::move(waiting_.front());
        waiting_.pop_front();
        serving_ = serve = true;
      }
      if (!reading_ && !last_read_ && !broken_ &&
          waiting_.size() + answers_.size() + (serving_ ? 1 : 0) < kMaxHeld) {
        reading_ = true;
        StartRead(&incoming_);
      }
      if (!writing_ && !answers_.empty() && !broken_) {
        writing_ = true;
        StartWrite(&answers_.front());
      }
      const bool idle = !serving_ && !reading_ && !writing_ && waiting_.empty();
      if (idle && !ended_ && (broken_ || (last_read_ && answers_.empty()))) {
        ended_ = end = true;
      }
    }
    if (end) {
      Finish(scope_.End(context_.IsCancelled()
                            ? absl::CancelledError("pipeline was cancelled")
                            : absl::OkStatus()));
      return;  // *this may be gone
    }
    if (serve) Serve();
  }

  // Only the one serving touches current_, answer_, request_ and work_.
  void Serve() {
    request_ = ContextOf(context_);
    answer_.Clear();
    answer_.set_sequence(current_.sequence());
    auto work = engine_.Begin();
    if (!work.ok()) return Answer(work.status());
    work_ = *std::move(work);
    if (current_.has_prepare()) return ServePrepare();
    auto session = engine_.sessions().Use(SessionId());
    if (!session.ok()) return Answer(session.status());
    session_ = *std::move(session);
    if (IsQuickCall() && session_->strand().TryEnter()) {
      const absl::Status status = Call();
      session_->strand().Leave();
      return Answer(status);
    }
    absl::Status status = session_->strand().Post([this] { Answer(Call()); });
    if (!status.ok()) Answer(status);
  }

  void ServePrepare() {
    absl::Status status = engine_.executor().Admit();
    if (!status.ok()) return Answer(status);
    engine_.executor().Post([this] {
      engine::Executor& executor = engine_.executor();
      Answer(Prepare(engine_, request_, current_.prepare(), answer_.mutable_prepare()));
      executor.Leave();
    });
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
        UOPD_TRY(engine_.OpenUpload(*session_, spec.handle(), spec.bytes(), spec.device()));
        uint64_t offset = upload.offset();
        return WriteChunk(engine_, *session_, spec.handle(), upload.data(), &offset);
      }
      case v1::PipelineRequest::kPrepare:
      case v1::PipelineRequest::CALL_NOT_SET:
        break;
    }
    return absl::InvalidArgumentError("message has no call");
  }

  void Answer(const absl::Status& status) {
    if (!status.ok()) answer_.clear_result();
    FillError(status, &answer_);
    request_.timings.Observe();
    session_ = {};
    engine::Work work = std::move(work_);  // until the answer is on its way
    {
      MutexLock lock(mu_);
      serving_ = false;
      if (!broken_) answers_.push_back(std::move(answer_));
    }
    Advance();
  }

  engine::Engine& engine_;
  grpc::CallbackServerContext& context_;
  CallScope scope_;

  v1::PipelineRequest incoming_;  // being read
  v1::PipelineRequest current_;   // being served
  v1::PipelineResponse answer_;
  engine::RequestContext request_;
  engine::SessionUse session_;
  engine::Work work_;

  Mutex mu_;
  bool reading_ = false, serving_ = false, writing_ = false;
  bool last_read_ = false, broken_ = false, ended_ = false;
  std::deque<v1::PipelineRequest> waiting_;
  std::deque<v1::PipelineResponse> answers_;  // the front one is being written
};

}  // namespace

grpc::ServerBidiReactor<v1::PipelineRequest, v1::PipelineResponse>* StartPipeline(
    engine::Engine& engine, grpc::CallbackServerContext* context) {
  return new Pipeline(engine, context);  // deletes itself in OnDone
}

}  // namespace uopd::rpc
