// SPDX-License-Identifier: MIT
#include "core/base/text.h"
#include "server/rpc/call_scope.h"
#include "server/rpc/calls.h"
#include "server/rpc/streams.h"

namespace uopd::rpc {
namespace {

// Reads a chunk, writes it on the session's strand, reads the next one.
class Upload final : public grpc::ServerReadReactor<v1::UploadRequest> {
 public:
  Upload(engine::Engine& engine, grpc::CallbackServerContext* context, v1::UploadResponse* response)
      : engine_(engine),
        context_(*context),
        response_(*response),
        scope_(engine, *context, Method::kUpload) {
    if (scope_.admitted().ok()) {
      StartRead(&message_);
    } else {
      End(scope_.admitted());
    }
  }

  void OnReadDone(bool ok) override {
    if (!ok) return OnLast();
    if (!session_) {
      if (absl::Status status = Open(); !status.ok()) return End(status);
    } else if (message_.offset() != 0 && message_.offset() != next_) {
      return End(absl::InvalidArgumentError(
          Cat("chunk at ", message_.offset(), " does not follow the one that ended at ", next_)));
    }
    // The buffer is made, and cleared, with the first chunk.
    const bool quick = written_ > 0 || message_.buffer().bytes() <= kMaxChunkBytes;
    if (quick && session_->strand().TryEnter()) {
      const absl::Status status = Write();
      session_->strand().Leave();
      return Continue(status);
    }
    absl::Status status = session_->strand().Post(caller_, [this] { Continue(Write()); });
    if (!status.ok()) End(status);
  }

  void OnDone() override { delete this; }

 private:
  absl::Status Open() {
    UOPD_ASSIGN(session_, engine_.sessions().Use(message_.session_id()));
    caller_ = CallerOf(context_, message_.session_id());
    handle_ = message_.buffer().handle();
    next_ = message_.offset();
    return absl::OkStatus();
  }

  absl::Status Write() {
    UOPD_TRY(scope_.request().Check());
    if (!opened_) {
      const v1::BufferSpec& spec = message_.buffer();
      UOPD_TRY(engine_.OpenUpload(*session_, handle_, spec.bytes(), spec.device()));
      opened_ = true;
    }
    const uint64_t begin = next_;
    UOPD_TRY(WriteChunk(engine_, *session_, handle_, message_.data(), &next_));
    written_ += next_ - begin;
    return absl::OkStatus();
  }

  void Continue(const absl::Status& status) {
    if (!status.ok()) return End(status);
    StartRead(&message_);
  }

  void OnLast() {
    if (context_.IsCancelled()) return End(absl::CancelledError("upload was cancelled"));
    if (!session_) return End(absl::InvalidArgumentError("upload has no messages"));
    response_.set_bytes(written_);
    End(absl::OkStatus());
  }

  void End(const absl::Status& status) { Finish(scope_.End(status)); }

  engine::Engine& engine_;
  grpc::CallbackServerContext& context_;
  v1::UploadResponse& response_;
  CallScope scope_;
  v1::UploadRequest message_;
  engine::SessionUse session_;
  engine::Caller caller_;
  uint64_t handle_ = 0;
  uint64_t next_ = 0;     // where the next byte goes
  uint64_t written_ = 0;  // bytes
  bool opened_ = false;
};

}  // namespace

grpc::ServerReadReactor<v1::UploadRequest>* StartUpload(engine::Engine& engine,
                                                        grpc::CallbackServerContext* context,
                                                        v1::UploadResponse* response) {
  return new Upload(engine, context, response);  // deletes itself in OnDone
}

}  // namespace uopd::rpc
