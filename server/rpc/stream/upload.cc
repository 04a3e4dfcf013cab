// SPDX-License-Identifier: MIT
#include "core/base/text.h"
#include "server/engine/base/shutting_down.h"
#include "server/rpc/call/calls.h"
#include "server/rpc/stream/stream_reactor.h"
#include "server/rpc/stream/streams.h"

namespace uopd::rpc {
namespace {

// Reads a chunk, writes it on the session's strand, then reads the next chunk.
class Upload final : public StreamReactor<grpc::ServerReadReactor<v1::UploadRequest>> {
 public:
  Upload(engine::Engine& engine, StreamWatch& watch, grpc::CallbackServerContext* context,
         v1::UploadResponse* response)
      : StreamReactor(engine, watch, *context, Method::kUpload), response_(*response) {
    scope_.ReleaseWork();
  }

  void OnReadDone(bool ok) override {
    if (!EndWireWait()) return;
    if (!ok) return OnLast();
    if (absl::Status status = BeginChunk(); !status.ok()) return Refuse(status);
    const bool quick = session_->buffers().OnlyCopies(handle_, next_, message_.buffer().bytes());
    if (quick && session_->strand().TryEnter()) {
      const absl::Status status = Write();
      session_->strand().Leave();
      return Continue(status);
    }
    absl::Status status =
        session_->strand().Post(request(), [self = Alive(this)] { self->Continue(self->Write()); });
    if (!status.ok()) Refuse(status);
  }

  void EndIfIdle(int64_t now_ns, const WatchLimits& limits) override {
    const absl::Status allowed = scope_.CheckToken();
    if (!wait_.Overdue(allowed.ok() ? now_ns - IdleLimitNs(limits, WaitFor::kMessage) : now_ns))
      return;
    End(!allowed.ok()     ? allowed
        : limits.draining ? engine::ShuttingDown()
                          : absl::DeadlineExceededError(
                                Cat("client sent nothing for longer than limits.stream_idle_ms (",
                                    limits.idle.count(), " ms)")));
  }

 private:
  absl::Status Begin() override {
    Read();
    return absl::OkStatus();
  }
  void LetGo() override { work_ = {}; }

  void Read() {
    BeginWait();
    StartRead(&message_);
  }

  // Takes what a chunk needs. Except for the work, an idle stream must not hold these things.
  absl::Status BeginChunk() {
    // Held from the first chunk to the end: a drain waits for an upload that goes on.
    if (session_id_.empty()) {
      UOPD_ASSIGN(work_, engine_.gate().Begin());
    }
    UOPD_ASSIGN(charge_, engine_.clients().ChargeMessage(BytesOf(message_)));
    if (session_id_.empty()) {
      if (message_.session_id().empty())
        return absl::InvalidArgumentError("the first message of the upload names no session");
      session_id_ = message_.session_id();
      NameCaller(context_, session_id_, request().caller);
      handle_ = message_.buffer().handle();
      next_ = message_.offset();
    }
    if (message_.has_area()) {
      return absl::InvalidArgumentError("only uploads of a pipeline may name a shared area");
    }
    if (message_.offset() != 0 && message_.offset() != next_) {
      return absl::InvalidArgumentError(
          Cat("chunk at ", message_.offset(), " does not follow the one that ended at ", next_));
    }
    UOPD_ASSIGN(session_, engine_.sessions().Use(session_id_, scope_.tenant()));
    return absl::OkStatus();
  }

  absl::Status Write() {
    UOPD_TRY(request().Check());
    if (!opened_) {
      const v1::BufferSpec& spec = message_.buffer();
      UOPD_ASSIGN(created_,
                  engine_.buffers().OpenUpload(*session_, handle_, spec.bytes(), spec.device()));
      opened_ = true;
    }
    const uint64_t begin = next_;
    UOPD_TRY(WriteChunk(engine_, *session_, handle_, message_.data(), &next_));
    written_ += next_ - begin;
    return absl::OkStatus();
  }

  void Continue(const absl::Status& status) {
    if (!status.ok()) return Refuse(status);
    session_ = {};
    charge_ = {};
    Read();
  }

  // If this upload made the buffer and could not fill it, the buffer is freed.
  void Refuse(const absl::Status& status) {
    if (created_ && session_) session_->buffers().Free({&handle_, 1});
    session_ = {};
    End(status);
  }

  void OnLast() {
    if (context_.IsCancelled()) return End(absl::CancelledError("upload was cancelled"));
    if (!opened_) return End(absl::InvalidArgumentError("upload has no messages"));
    response_.set_bytes(written_);
    End(absl::OkStatus());
  }

  v1::UploadResponse& response_;
  v1::UploadRequest message_;
  std::string session_id_;  // empty before the first chunk
  engine::Work work_;
  // Held while a chunk is processed.
  engine::SessionUse session_;
  engine::Charge charge_;
  uint64_t handle_ = 0;
  uint64_t next_ = 0;     // offset of the next byte
  uint64_t written_ = 0;  // bytes
  bool opened_ = false, created_ = false;
};

}  // namespace

grpc::ServerReadReactor<v1::UploadRequest>* StartUpload(engine::Engine& engine, StreamWatch& watch,
                                                        grpc::CallbackServerContext* context,
                                                        v1::UploadResponse* response) {
  return Upload::Start<Upload>(engine, watch, context, response);
}

}  // namespace uopd::rpc
