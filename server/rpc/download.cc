// SPDX-License-Identifier: MIT
#include <algorithm>

#include "core/base/metrics.h"
#include "core/base/text.h"
#include "server/engine/not_found.h"
#include "server/rpc/call_scope.h"
#include "server/rpc/calls.h"
#include "server/rpc/streams.h"

namespace uopd::rpc {
namespace {

// Reads a chunk on the session's strand, writes it, reads the next one when that is done.
class Download final : public grpc::ServerWriteReactor<v1::DownloadResponse> {
 public:
  Download(engine::Engine& engine, grpc::CallbackServerContext* context,
           const v1::DownloadRequest& request)
      : engine_(engine), request_(request), scope_(engine, *context, Method::kDownload) {
    caller_ = CallerOf(*context, request.session_id());
    absl::Status status = scope_.admitted();
    if (status.ok()) status = Open();
    if (status.ok()) {
      Next();
    } else {
      End(status);
    }
  }

  void OnWriteDone(bool ok) override {
    if (!ok) return End(absl::CancelledError("client does not read any more"));
    if (next_ == end_) return End(absl::OkStatus());
    Next();
  }

  void OnDone() override { delete this; }

 private:
  absl::Status Open() {
    UOPD_ASSIGN(session_, engine_.sessions().Use(request_.session_id()));
    return absl::OkStatus();
  }

  // The buffer may be the output of a call that is ahead, so it is looked for on the strand.
  absl::Status FindRange() {
    const auto buffer = session_->buffers().Find(request_.handle());
    if (buffer == nullptr) {
      return engine::NotFound(engine::kBuffer, Cat("buffer ", request_.handle(), " is unknown"));
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
    if (session_->strand().TryEnter()) {
      const absl::Status status = Read();
      session_->strand().Leave();
      return Send(status);
    }
    absl::Status status = session_->strand().Post(caller_, [this] { Send(Read()); });
    if (!status.ok()) End(status);
  }

  void Send(const absl::Status& status) {
    if (!status.ok()) return End(status);
    StartWrite(&message_);
  }

  void End(const absl::Status& status) { Finish(scope_.End(status)); }

  engine::Engine& engine_;
  const v1::DownloadRequest& request_;
  CallScope scope_;
  v1::DownloadResponse message_;
  engine::SessionUse session_;
  engine::Caller caller_;
  uint64_t next_ = 0, end_ = 0;  // bytes of the buffer still to send
  bool found_ = false;
};

}  // namespace

grpc::ServerWriteReactor<v1::DownloadResponse>* StartDownload(engine::Engine& engine,
                                                              grpc::CallbackServerContext* context,
                                                              const v1::DownloadRequest* request) {
  return new Download(engine, context, *request);  // deletes itself in OnDone
}

}  // namespace uopd::rpc
