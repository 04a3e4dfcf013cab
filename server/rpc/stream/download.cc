// SPDX-License-Identifier: MIT
#include <algorithm>
#include <atomic>
#include <memory>

#include "core/base/text.h"
#include "server/engine/usage/tenant_usage.h"
#include "server/rpc/call/call_scope.h"
#include "server/rpc/call/calls.h"
#include "server/rpc/call/request_record.h"
#include "server/rpc/stream/streams.h"

namespace uopd::rpc {
namespace {

// Reads a piece on the session's strand and writes it to the client. When that is done, reads the
// next piece.
//
// What a piece takes is charged to its session, and counted among what the client has not read. So
// pieces get small, and then the download waits, if the client leaves those of other downloads
// unread (UnreadAnswers). The watch lets it try again.
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
    int64_t waited_ns = 0;
    wait_.End(&waited_ns);  // no effect if cancelled: this write then fails
    RecordWire(scope_.request(), waited_ns);
    // Before the end of the stream, so that a client that has it finds room in its session.
    charge_ = {};
    unread_ = {};
    if (!ok) return End(absl::CancelledError("client does not read any more"));
    if (next_ == end_) return End(absl::OkStatus());
    Next();
  }

  void OnCancel() override {
    const auto alive = shared_from_this();
    cancellation_->Cancel();
  }

  void EndIfIdle(int64_t now_ns, const WatchLimits& limits) override {
    if (wait_.Overdue(now_ns - IdleLimitNs(limits)) || !scope_.CheckToken().ok())
      context_.TryCancel();
    if (waits_for_room_.exchange(false, std::memory_order_acq_rel)) NextOnPool();
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

  // False: the client has left too much unread for another piece.
  absl::StatusOr<bool> Read() {
    UOPD_TRY(scope_.request().Check());
    if (!found_) UOPD_TRY(FindRange());
    uint64_t size = std::min(end_ - next_, kMaxChunkBytes);
    unread_ = engine_.unread().HoldPiece(scope_.request().caller, &size);
    if (unread_.bytes() == 0) return false;
    charge_ =
        engine::Charge::Always(session_->quota(), unread_.bytes(), engine::ByteClass::kAnswers);
    std::string& data = *message_.mutable_data();
    if (data.capacity() > 2 * size) std::string().swap(data);  // as the piece before was larger
    data.resize(static_cast<size_t>(size));
    UOPD_TRY(engine_.Read(*session_, request_.handle(), next_, data));
    next_ += data.size();
    engine::CountSent(scope_.tenant(), data.size());
    return true;
  }

  void Next() {
    if (!session_->buffers().HasUnfilled() && session_->strand().TryEnter()) {
      const absl::StatusOr<bool> read = Read();
      session_->strand().Leave();
      return Send(read);
    }
    NextOnPool();
  }

  void NextOnPool() {
    absl::Status status = session_->strand().Post(
        scope_.request(), [self = shared_from_this()] { self->Send(self->Read()); });
    if (!status.ok()) End(status);
  }

  void Send(const absl::StatusOr<bool>& read) {
    if (!read.ok()) return End(read.status());
    if (!*read) {
      message_ = {};
      waits_for_room_.store(true, std::memory_order_release);
      return;
    }
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
  engine::SessionUse session_;
  engine::Charge charge_;  // for message_, to the session
  engine::UnreadAnswers::Held unread_;
  uint64_t next_ = 0, end_ = 0;  // range of the buffer that is still to be sent, in bytes
  bool found_ = false;
  ClientWait wait_;
  std::atomic<bool> waits_for_room_{false};
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
