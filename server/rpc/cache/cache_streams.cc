// SPDX-License-Identifier: MIT
// ExportCache and ImportCache: bundles of the cache, in chunks.
//
// Both work on the task pool, a chunk at a time. What they hold for a client is bounded: the list
// of a bundle, one record and one chunk. So only a few run at a time in a daemon.
#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "core/base/text.h"
#include "server/rpc/cache/cache_messages.h"
#include "server/rpc/call/calls.h"
#include "server/rpc/stream/stream_reactor.h"
#include "server/rpc/stream/streams.h"
#include "server/rpc/stream/transfer_slot.h"

namespace uopd::rpc {
namespace {

constexpr int kMaxEnvironments = 100;

class CacheExportStream final
    : public StreamReactor<grpc::ServerWriteReactor<v1::ExportCacheResponse>> {
 public:
  CacheExportStream(engine::Engine& engine, StreamWatch& watch,
                    grpc::CallbackServerContext* context, const v1::ExportCacheRequest& request)
      : StreamReactor(engine, watch, *context, Method::kExportCache), request_(request) {
    NameCaller(context_, "", StreamReactor::request().caller);
  }

  void OnWriteDone(bool ok) override {
    EndWait();          // no effect if cancelled: this write then fails
    sent_.unread = {};  // the charge stays: the message keeps its memory
    if (!ok) return End(WriteFailed());
    Post();
  }

 private:
  absl::Status Begin() override {
    UOPD_ASSIGN(slot_, TransferSlot::Take());
    Post();
    return absl::OkStatus();
  }
  void LetGo() override {
    bundle_.reset();
    slot_.reset();  // a client that has the status may export again at once
  }

  void Post() {
    engine_.task_pool().Post(request(), [self = Alive(this)] { self->Next(); });
  }

  absl::Status Make() {
    UOPD_TRY(request().Check());
    if (!bundle_) {
      UOPD_ASSIGN(bundle_, engine::CacheExport::Begin(request(), engine_.operate().cache,
                                                      engine_.operate().bundle_keys,
                                                      ToFilter(request_.filter())));
    }
    UOPD_ASSIGN(*message_.mutable_data(), bundle_->Next());
    message_.set_entries(bundle_->entries());
    message_.set_left_out(bundle_->left_out());
    return absl::OkStatus();
  }

  void Next() {
    const absl::Status status = Make();
    if (!status.ok() || message_.data().empty()) return End(status);
    auto sent = SentMemory::Of(engine_, request().caller, message_);
    if (!sent.ok()) return End(sent.status());
    sent_ = *std::move(sent);
    BeginWait();
    StartWrite(&message_);
  }

  const v1::ExportCacheRequest& request_;
  std::optional<TransferSlot> slot_;           // from Begin to End
  std::optional<engine::CacheExport> bundle_;  // set by the first task
  v1::ExportCacheResponse message_;
  SentMemory sent_;  // for message_
};

// Reads a chunk, handles it, answers, reads the next one. After the last chunk it answers once
// more.
class CacheImportStream final
    : public StreamReactor<
          grpc::ServerBidiReactor<v1::ImportCacheRequest, v1::ImportCacheResponse>> {
 public:
  CacheImportStream(engine::Engine& engine, StreamWatch& watch,
                    grpc::CallbackServerContext* context)
      : StreamReactor(engine, watch, *context, Method::kImportCache) {
    NameCaller(context_, "", request().caller);
    scope_.ReleaseWork();
  }

  void OnReadDone(bool ok) override {
    EndWait();  // no effect if cancelled: this read then fails
    last_ = !ok;
    if (last_ && context_.IsCancelled()) return End(absl::CancelledError("import was cancelled"));
    engine_.task_pool().Post(request(), [self = Alive(this)] { self->Handle(); });
  }

  void OnWriteDone(bool ok) override {
    EndWait();
    if (!ok) return End(WriteFailed());
    if (last_ || !failed_.ok()) return End(failed_);
    Read();
  }

 private:
  absl::Status Begin() override {
    UOPD_ASSIGN(slot_, TransferSlot::Take());
    Read();
    return absl::OkStatus();
  }
  void LetGo() override {
    import_.reset();
    slot_.reset();  // a client that has the status may import again at once
  }

  void Read() {
    BeginWait();
    StartRead(&chunk_);
  }

  absl::Status Work() {
    UOPD_TRY(request().Check());
    UOPD_ASSIGN(const engine::Work work, engine_.gate().Begin());
    UOPD_ASSIGN(const engine::Charge charge, engine_.clients().ChargeMessage(BytesOf(chunk_)));
    if (!import_) {
      import_.emplace(engine_.operate().cache, engine_.operate().bundle_keys, chunk_.dry_run());
    }
    answer_.Clear();
    if (last_) {
      UOPD_TRY(import_->End());
    } else {
      if (chunk_.data().size() > kMaxChunkBytes)
        return absl::InvalidArgumentError(Cat("a chunk has more than ", kMaxChunkBytes, " bytes"));
      std::vector<engine::ImportedRecord> records;
      failed_ = import_->Feed(chunk_.data(), records);
      for (const engine::ImportedRecord& record : records) Add(record);
      if (records.empty()) UOPD_TRY(failed_);  // otherwise the records are answered first
    }
    if (const cache::BundleList* list = import_->maybe_list()) {
      answer_.set_entries(list->items.size());
      answer_.set_created_unix_us(static_cast<uint64_t>(std::max<int64_t>(list->created_us, 0)));
      if (!std::exchange(named_, true)) {
        for (const std::string& one : list->environments) {
          if (answer_.environments_size() == kMaxEnvironments) break;
          answer_.add_environments(Printable(one));
        }
      }
    }
    return absl::OkStatus();
  }

  void Add(const engine::ImportedRecord& record) {
    v1::ImportedRecord* out = answer_.add_records();
    out->set_number(record.number);
    out->set_key(record.address.Hex());
    out->set_outcome(Name(record.outcome));
    out->set_reason(Printable(record.reason));
    out->set_store(Printable(record.store));
    out->set_title(Printable(record.title));
    out->set_seconds(record.seconds);
  }

  void Handle() {
    const absl::Status status = Work();
    if (!status.ok()) return End(status);
    BeginWait();
    StartWrite(&answer_);
  }

  std::optional<TransferSlot> slot_;           // from Begin to End
  std::optional<engine::CacheImport> import_;  // set by the first task
  v1::ImportCacheRequest chunk_;
  v1::ImportCacheResponse answer_;
  absl::Status failed_;  // ends the import after the answer
  bool last_ = false, named_ = false;
};

}  // namespace

grpc::ServerWriteReactor<v1::ExportCacheResponse>* StartCacheExport(
    engine::Engine& engine, StreamWatch& watch, grpc::CallbackServerContext* context,
    const v1::ExportCacheRequest* request) {
  return CacheExportStream::Start<CacheExportStream>(engine, watch, context, *request);
}

grpc::ServerBidiReactor<v1::ImportCacheRequest, v1::ImportCacheResponse>* StartCacheImport(
    engine::Engine& engine, StreamWatch& watch, grpc::CallbackServerContext* context) {
  return CacheImportStream::Start<CacheImportStream>(engine, watch, context);
}

}  // namespace uopd::rpc
