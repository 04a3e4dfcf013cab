// SPDX-License-Identifier: MIT
// ExportCache and ImportCache: bundles of the cache, in chunks.
//
// Both work on the task pool, a chunk at a time. What they hold for a client is bounded: the list
// of a bundle, one record and one chunk. So only a few run at a time in a daemon.
#include <algorithm>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "core/base/text.h"
#include "server/rpc/cache/cache_messages.h"
#include "server/rpc/call/answer_reactor.h"
#include "server/rpc/call/call_scope.h"
#include "server/rpc/call/calls.h"
#include "server/rpc/stream/streams.h"
#include "server/rpc/stream/transfer_slot.h"

namespace uopd::rpc {
namespace {

constexpr int kMaxEnvironments = 100;

// Callers who may not have a bundle take no slot from those who may.
absl::StatusOr<TransferSlot> Admit(const CallScope& scope) {
  UOPD_TRY(scope.admitted());
  return TransferSlot::Take();
}

class CacheExportStream final : public grpc::ServerWriteReactor<v1::ExportCacheResponse>,
                                public WatchedStream,
                                public std::enable_shared_from_this<CacheExportStream> {
 public:
  CacheExportStream(engine::Engine& engine, StreamWatch& watch,
                    grpc::CallbackServerContext* context, const v1::ExportCacheRequest& request)
      : engine_(engine),
        watch_(watch),
        context_(*context),
        request_(request),
        scope_(engine, *context, Method::kExportCache) {
    NameCaller(*context, "", scope_.request().caller);
    scope_.request().EndWith(cancellation_);
  }

  void Start() {
    self_ = shared_from_this();
    watch_.Add(self_);
    auto slot = Admit(scope_);
    if (!slot.ok()) return End(slot.status());
    slot_ = *std::move(slot);
    Post();
  }

  void OnWriteDone(bool ok) override {
    wait_.End();  // no effect if cancelled: this write then fails
    unread_ = {};
    if (!ok) return End(absl::CancelledError("client does not read any more"));
    Post();
  }

  void OnCancel() override {
    const auto alive = shared_from_this();
    cancellation_->Cancel();
  }

  void EndIfIdle(int64_t now_ns, const WatchLimits& limits) override {
    if (wait_.Overdue(now_ns - IdleLimitNs(limits)) || !scope_.CheckToken().ok())
      context_.TryCancel();
  }

  void OnDone() override {
    watch_.Remove(this);
    self_ = nullptr;  // *this may be gone
  }

 private:
  void Post() {
    engine_.task_pool().Post(scope_.request(), [self = shared_from_this()] { self->Next(); });
  }

  absl::Status Make() {
    UOPD_TRY(scope_.request().Check());
    if (!bundle_) {
      UOPD_ASSIGN(bundle_,
                  engine::CacheExport::Begin(scope_.request(), engine_.cache_operator(),
                                             engine_.bundle_keys(), ToFilter(request_.filter())));
    }
    UOPD_ASSIGN(*message_.mutable_data(), bundle_->Next());
    message_.set_entries(bundle_->entries());
    message_.set_left_out(bundle_->left_out());
    return absl::OkStatus();
  }

  void Next() {
    const absl::Status status = Make();
    if (!status.ok() || message_.data().empty()) return End(status);
    const int64_t bytes = HeldFor(message_);
    auto unread = engine_.unread().Hold(scope_.request().caller, bytes);
    if (!unread.ok()) return End(unread.status());
    unread_ = *std::move(unread);
    charge_ = engine::Charge::Always(engine_.client_bytes(), bytes, engine::ByteClass::kAnswers);
    wait_.Begin(NowNs());
    StartWrite(&message_);
  }

  void End(const absl::Status& status) {
    bundle_.reset();
    slot_.reset();  // a client that has the status may export again at once
    Finish(scope_.End(status));
  }

  engine::Engine& engine_;
  StreamWatch& watch_;
  grpc::CallbackServerContext& context_;
  const v1::ExportCacheRequest& request_;
  std::optional<TransferSlot> slot_;  // from Start to End of a call that was admitted
  CallScope scope_;
  const std::shared_ptr<engine::Cancellation> cancellation_ =
      std::make_shared<engine::Cancellation>();
  std::optional<engine::CacheExport> bundle_;  // set by the first task
  v1::ExportCacheResponse message_;
  engine::Charge charge_;  // for message_
  engine::UnreadAnswers::Held unread_;
  ClientWait wait_;
  std::shared_ptr<CacheExportStream> self_;  // from Start to OnDone
};

// Reads a chunk, handles it, answers, reads the next one. After the last chunk it answers once
// more.
class CacheImportStream final
    : public grpc::ServerBidiReactor<v1::ImportCacheRequest, v1::ImportCacheResponse>,
      public WatchedStream,
      public std::enable_shared_from_this<CacheImportStream> {
 public:
  CacheImportStream(engine::Engine& engine, StreamWatch& watch,
                    grpc::CallbackServerContext* context)
      : engine_(engine),
        watch_(watch),
        context_(*context),
        scope_(engine, *context, Method::kImportCache) {
    NameCaller(*context, "", scope_.request().caller);
    scope_.ReleaseWork();
    scope_.request().EndWith(cancellation_);
  }

  void Start() {
    self_ = shared_from_this();
    watch_.Add(self_);
    auto slot = Admit(scope_);
    if (!slot.ok()) return End(slot.status());
    slot_ = *std::move(slot);
    Read();
  }

  void OnReadDone(bool ok) override {
    wait_.End();  // no effect if cancelled: this read then fails
    last_ = !ok;
    if (last_ && context_.IsCancelled()) return End(absl::CancelledError("import was cancelled"));
    engine_.task_pool().Post(scope_.request(), [self = shared_from_this()] { self->Handle(); });
  }

  void OnWriteDone(bool ok) override {
    wait_.End();
    if (!ok) return End(absl::CancelledError("client does not read any more"));
    if (last_ || !failed_.ok()) return End(failed_);
    Read();
  }

  void OnCancel() override {
    const auto alive = shared_from_this();
    cancellation_->Cancel();
  }

  void EndIfIdle(int64_t now_ns, const WatchLimits& limits) override {
    if (wait_.Overdue(now_ns - IdleLimitNs(limits)) || !scope_.CheckToken().ok())
      context_.TryCancel();
  }

  void OnDone() override {
    watch_.Remove(this);
    self_ = nullptr;  // *this may be gone
  }

 private:
  void Read() {
    wait_.Begin(NowNs());
    StartRead(&request_);
  }

  absl::Status Work() {
    UOPD_TRY(scope_.request().Check());
    UOPD_ASSIGN(const engine::Work work, engine_.Begin());
    UOPD_ASSIGN(const engine::Charge charge, engine_.ChargeMessage(BytesOf(request_)));
    if (!import_) {
      import_.emplace(engine_.cache_operator(), engine_.bundle_keys(), request_.dry_run());
    }
    answer_.Clear();
    if (last_) {
      UOPD_TRY(import_->End());
    } else {
      if (request_.data().size() > kMaxChunkBytes)
        return absl::InvalidArgumentError(Cat("a chunk has more than ", kMaxChunkBytes, " bytes"));
      std::vector<engine::ImportedRecord> records;
      failed_ = import_->Feed(request_.data(), records);
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
    wait_.Begin(NowNs());
    StartWrite(&answer_);
  }

  void End(const absl::Status& status) {
    import_.reset();
    slot_.reset();  // a client that has the status may import again at once
    Finish(scope_.End(status));
  }

  engine::Engine& engine_;
  StreamWatch& watch_;
  grpc::CallbackServerContext& context_;
  std::optional<TransferSlot> slot_;  // from Start to End of a call that was admitted
  CallScope scope_;
  const std::shared_ptr<engine::Cancellation> cancellation_ =
      std::make_shared<engine::Cancellation>();
  std::optional<engine::CacheImport> import_;  // set by the first task
  v1::ImportCacheRequest request_;
  v1::ImportCacheResponse answer_;
  absl::Status failed_;  // ends the import after the answer
  bool last_ = false, named_ = false;
  ClientWait wait_;
  std::shared_ptr<CacheImportStream> self_;  // from Start to OnDone
};

}  // namespace

grpc::ServerWriteReactor<v1::ExportCacheResponse>* StartCacheExport(
    engine::Engine& engine, StreamWatch& watch, grpc::CallbackServerContext* context,
    const v1::ExportCacheRequest* request) {
  auto stream = std::make_shared<CacheExportStream>(engine, watch, context, *request);
  stream->Start();
  return stream.get();  // alive at least until gRPC has called OnDone
}

grpc::ServerBidiReactor<v1::ImportCacheRequest, v1::ImportCacheResponse>* StartCacheImport(
    engine::Engine& engine, StreamWatch& watch, grpc::CallbackServerContext* context) {
  auto stream = std::make_shared<CacheImportStream>(engine, watch, context);
  stream->Start();
  return stream.get();
}

}  // namespace uopd::rpc
