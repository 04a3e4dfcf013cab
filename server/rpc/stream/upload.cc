// SPDX-License-Identifier: MIT
#include <memory>

#include "core/base/text.h"
#include "server/engine/base/shutting_down.h"
#include "server/rpc/call/call_scope.h"
#include "server/rpc/call/calls.h"
#include "server/rpc/call/request_record.h"
#include "server/rpc/stream/streams.h"

namespace uopd::rpc {
namespace {

// Reads a chunk, writes it on the session's strand, then reads the next chunk.
class Upload final : public grpc::ServerReadReactor<v1::UploadRequest>,
                     public WatchedStream,
                     public std::enable_shared_from_this<Upload> {
 public:
  Upload(engine::Engine& engine, StreamWatch& watch, grpc::CallbackServerContext* context,
         v1::UploadResponse* response)
      : engine_(engine),
        watch_(watch),
        context_(*context),
        response_(*response),
        scope_(engine, *context, Method::kUpload) {
    scope_.ReleaseWork();
    scope_.request().EndWith(cancellation_);
  }

  void Start() {
    self_ = shared_from_this();
    watch_.Add(self_);
    if (scope_.admitted().ok()) {
      Read();
    } else {
      End(scope_.admitted());
    }
  }

  void OnReadDone(bool ok) override {
    int64_t waited_ns = 0;
    if (!wait_.End(&waited_ns)) return;
    RecordWire(scope_.request(), waited_ns);
    if (!ok) return OnLast();
    if (absl::Status status = BeginChunk(); !status.ok()) return Refuse(status);
    const bool quick = session_->buffers().OnlyCopies(handle_, next_, message_.buffer().bytes());
    if (quick && session_->strand().TryEnter()) {
      const absl::Status status = Write();
      session_->strand().Leave();
      return Continue(status);
    }
    absl::Status status = session_->strand().Post(
        scope_.request(), [self = shared_from_this()] { self->Continue(self->Write()); });
    if (!status.ok()) Refuse(status);
  }

  void OnCancel() override {
    const auto alive = shared_from_this();
    cancellation_->Cancel();
  }

  void EndIfIdle(int64_t now_ns, const WatchLimits& limits) override {
    const absl::Status allowed = scope_.CheckToken();
    if (!wait_.Overdue(allowed.ok() ? now_ns - IdleLimitNs(limits) : now_ns)) return;
    End(!allowed.ok()     ? allowed
        : limits.draining ? engine::ShuttingDown()
                          : absl::DeadlineExceededError(
                                Cat("client sent nothing for longer than limits.stream_idle_ms (",
                                    limits.idle.count(), " ms)")));
  }

  void OnDone() override {
    watch_.Remove(this);
    self_ = nullptr;  // *this may be gone
  }

 private:
  void Read() {
    wait_.Begin(NowNs());
    StartRead(&message_);
  }

  // Takes what a chunk needs. Except for the work, an idle stream must not hold these things.
  absl::Status BeginChunk() {
    // Held from the first chunk to the end: a drain waits for an upload that goes on.
    if (session_id_.empty()) {
      UOPD_ASSIGN(work_, engine_.Begin());
    }
    UOPD_ASSIGN(charge_, engine_.ChargeMessage(BytesOf(message_)));
    if (session_id_.empty()) {
      session_id_ = message_.session_id();
      NameCaller(context_, session_id_, scope_.request().caller);
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
    UOPD_TRY(scope_.request().Check());
    if (!opened_) {
      const v1::BufferSpec& spec = message_.buffer();
      UOPD_ASSIGN(created_, engine_.OpenUpload(*session_, handle_, spec.bytes(), spec.device()));
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

  void End(const absl::Status& status) {
    work_ = {};
    Finish(scope_.End(status));
  }

  engine::Engine& engine_;
  StreamWatch& watch_;
  grpc::CallbackServerContext& context_;
  v1::UploadResponse& response_;
  CallScope scope_;
  const std::shared_ptr<engine::Cancellation> cancellation_ =
      std::make_shared<engine::Cancellation>();
  v1::UploadRequest message_;
  std::string session_id_;  // empty before the first chunk
  ClientWait wait_;
  engine::Work work_;
  // Held while a chunk is processed.
  engine::SessionUse session_;
  engine::Charge charge_;
  uint64_t handle_ = 0;
  uint64_t next_ = 0;     // offset of the next byte
  uint64_t written_ = 0;  // bytes
  bool opened_ = false, created_ = false;
  std::shared_ptr<Upload> self_;  // from Start to OnDone
};

}  // namespace

grpc::ServerReadReactor<v1::UploadRequest>* StartUpload(engine::Engine& engine, StreamWatch& watch,
                                                        grpc::CallbackServerContext* context,
                                                        v1::UploadResponse* response) {
  auto upload = std::make_shared<Upload>(engine, watch, context, response);
  upload->Start();
  return upload.get();  // alive at least until gRPC has called OnDone
}

}  // namespace uopd::rpc
