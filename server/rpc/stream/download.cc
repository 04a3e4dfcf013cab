// SPDX-License-Identifier: MIT
#include <algorithm>
#include <memory>

#include "core/base/telemetry/metrics.h"
#include "core/base/text.h"
#include "server/rpc/call/call_scope.h"
#include "server/rpc/call/calls.h"
#include "server/rpc/stream/streams.h"

namespace uopd::rpc {
namespace {

// Reads a chunk on the session's strand and writes it to the client. When that is done, reads the
// next chunk.
//
// Holds its session and its Work until the end. A drain lets it finish, unless its client stops
// reading.
class Download final : public grpc::ServerWriteReactor<v1::DownloadResponse>,
                       public WatchedStream,
                       public std::enable_shared_from_this<Download> {
 public:
  Download(engine::Engine& engine, StreamWatch& watch, grpc::CallbackServerContext* context,
           const v1::DownloadRequest& request)
      : engine_(engine),
        watch_(watch),
        context_(*context),
        request_(request),
        scope_(engine, *context, Method::kDownload) {
    NameCaller(*context, request.session_id(), scope_.request().caller);
    scope_.request().EndWith(cancellation_);
  }

  void Start() {
    self_ = shared_from_this();
    watch_.Add(self_);
    absl::Status status = scope_.admitted();
    if (status.ok()) status = Open();
    if (status.ok()) {
      Next();
    } else {
      End(status);
    }
  }

  void OnWriteDone(bool ok) override {
    wait_.End();  // no effect if cancelled: this write then fails
    if (!ok) return End(absl::CancelledError("client does not read any more"));
    if (next_ == end_) return End(absl::OkStatus());
    Next();
  }

  void OnCancel() override {
    const auto alive = shared_from_this();
    cancellation_->Cancel();
  }

  void EndIfIdle(int64_t now_ns, const WatchLimits& limits) override {
    if (wait_.Overdue(now_ns - WriteLimitNs(limits))) context_.TryCancel();
  }

  void OnDone() override {
    watch_.Remove(this);
    self_ = nullptr;  // *this may be gone
  }

 private:
  absl::Status Open() {
    if (request_.has_area()) {
      return absl::InvalidArgumentError("only downloads of a pipeline may name a shared area");
    }
    UOPD_ASSIGN(session_, engine_.sessions().Use(request_.session_id(), scope_.tenant()));
    return absl::OkStatus();
  }

  // Looks for the buffer on the strand, because the buffer may be the output of a call that is
  // ahead.
  absl::Status FindRange() {
    const auto buffer = session_->buffers().Find(request_.handle());
    if (buffer == nullptr) {
      return session_->buffers().Missing(request_.handle());
    }
    const uint64_t size = buffer->size(), offset = request_.offset();
    if (offset > size || request_.bytes() > size - offset) {
      return absl::InvalidArgumentError(Cat("bytes (", offset, " to ", offset, " + ",
                                            request_.bytes(), ") are outside buffer ",
                                            request_.handle(), " of ", size, " bytes"));
    }
    next_ = offset;
    end_ = request_.bytes() == 0 ? size : offset + request_.bytes();
    found_ = true;
    return absl::OkStatus();
  }

  absl::Status Read() {
    UOPD_TRY(scope_.request().Check());
    if (!found_) UOPD_TRY(FindRange());
    std::string& data = *message_.mutable_data();
    data.resize(static_cast<size_t>(std::min(end_ - next_, kMaxChunkBytes)));
    UOPD_TRY(engine_.Read(*session_, request_.handle(), next_, data));
    next_ += data.size();
    metrics::BytesSent().Increment(data.size());
    return absl::OkStatus();
  }

  void Next() {
    if (!session_->buffers().HasUnfilled() && session_->strand().TryEnter()) {
      const absl::Status status = Read();
      session_->strand().Leave();
      return Send(status);
    }
    absl::Status status = session_->strand().Post(
        scope_.request(), [self = shared_from_this()] { self->Send(self->Read()); });
    if (!status.ok()) End(status);
  }

  void Send(const absl::Status& status) {
    if (!status.ok()) return End(status);
    charge_ = engine::Charge::Always(engine_.client_bytes(), BytesOf(message_),
                                     engine::ByteClass::kAnswers);
    wait_.Begin(NowNs());
    StartWrite(&message_);
  }

  void End(const absl::Status& status) { Finish(scope_.End(status)); }

  engine::Engine& engine_;
  StreamWatch& watch_;
  grpc::CallbackServerContext& context_;
  const v1::DownloadRequest& request_;
  CallScope scope_;
  const std::shared_ptr<engine::Cancellation> cancellation_ =
      std::make_shared<engine::Cancellation>();
  v1::DownloadResponse message_;
  engine::Charge charge_;  // for message_
  engine::SessionUse session_;
  uint64_t next_ = 0, end_ = 0;  // range of the buffer that is still to be sent, in bytes
  bool found_ = false;
  ClientWait wait_;
  std::shared_ptr<Download> self_;  // from Start to OnDone
};

}  // namespace

grpc::ServerWriteReactor<v1::DownloadResponse>* StartDownload(engine::Engine& engine,
                                                              StreamWatch& watch,
                                                              grpc::CallbackServerContext* context,
                                                              const v1::DownloadRequest* request) {
  auto download = std::make_shared<Download>(engine, watch, context, *request);
  download->Start();
  return download.get();  // alive at least until gRPC has called OnDone
}

}  // namespace uopd::rpc
