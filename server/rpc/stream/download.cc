// SPDX-License-Identifier: MIT
#include <algorithm>
#include <atomic>

#include "core/base/text.h"
#include "server/engine/usage/tenant_usage.h"
#include "server/rpc/call/calls.h"
#include "server/rpc/stream/stream_reactor.h"
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
class Download final : public StreamReactor<grpc::ServerWriteReactor<v1::DownloadResponse>> {
 public:
  Download(engine::Engine& engine, StreamWatch& watch, grpc::CallbackServerContext* context,
           const v1::DownloadRequest& request)
      : StreamReactor(engine, watch, *context, Method::kDownload), request_(request) {
    NameCaller(context_, request.session_id(), StreamReactor::request().caller);
  }

  void OnWriteDone(bool ok) override {
    EndWireWait();  // no effect if cancelled: this write then fails
    // Before the end of the stream, so that a client that has it finds room in its session.
    charge_ = {};
    unread_ = {};
    if (!ok) return End(WriteFailed());
    if (next_ == end_) return End(absl::OkStatus());
    Next();
  }

  void EndIfIdle(int64_t now_ns, const WatchLimits& limits) override {
    StreamReactor::EndIfIdle(now_ns, limits);
    if (waits_for_room_.exchange(false, std::memory_order_acq_rel)) NextOnPool();
  }

 private:
  absl::Status Begin() override {
    if (request_.has_area()) {
      return absl::InvalidArgumentError("only downloads of a pipeline may name a shared area");
    }
    UOPD_ASSIGN(session_, engine_.sessions().Use(request_.session_id(), scope_.tenant()));
    Next();
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
    UOPD_TRY(request().Check());
    if (!found_) UOPD_TRY(FindRange());
    uint64_t size = std::min(end_ - next_, kMaxChunkBytes);
    unread_ = engine_.clients().unread.HoldPiece(request().caller, &size);
    if (unread_.bytes() == 0) return false;
    charge_ =
        engine::Charge::Always(session_->quota(), unread_.bytes(), engine::ByteClass::kAnswers);
    std::string& data = *message_.mutable_data();
    if (data.capacity() > 2 * size) std::string().swap(data);  // as the piece before was larger
    data.resize(static_cast<size_t>(size));
    UOPD_TRY(engine_.buffers().Read(*session_, request_.handle(), next_, data));
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
    absl::Status status =
        session_->strand().Post(request(), [self = Alive(this)] { self->Send(self->Read()); });
    if (!status.ok()) End(status);
  }

  void Send(const absl::StatusOr<bool>& read) {
    if (!read.ok()) return End(read.status());
    if (!*read) {
      message_ = {};
      waits_for_room_.store(true, std::memory_order_release);
      return;
    }
    BeginWait();
    StartWrite(&message_);
  }

  const v1::DownloadRequest& request_;
  v1::DownloadResponse message_;
  engine::SessionUse session_;
  engine::Charge charge_;  // for message_, to the session
  engine::UnreadAnswers::Held unread_;
  uint64_t next_ = 0, end_ = 0;  // range of the buffer that is still to be sent, in bytes
  bool found_ = false;
  std::atomic<bool> waits_for_room_{false};
};

}  // namespace

grpc::ServerWriteReactor<v1::DownloadResponse>* StartDownload(engine::Engine& engine,
                                                              StreamWatch& watch,
                                                              grpc::CallbackServerContext* context,
                                                              const v1::DownloadRequest* request) {
  return Download::Start<Download>(engine, watch, context, *request);
}

}  // namespace uopd::rpc
