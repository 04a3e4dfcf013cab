// SPDX-License-Identifier: MIT
// WatchTune: what is known about a tuning operation, and then what changes.
//
// The stream's watch looks at the operation ten times a second. If something is new, one message is
// made and written, and nothing else until the client has taken it. So a stream holds one message,
// however slow its client is.
//
// busy_ is the right to use the members below it. It is held while a message is made and written.
#include <atomic>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "core/base/mutex.h"
#include "core/base/telemetry/metrics.h"
#include "core/base/text.h"
#include "server/rpc/call/answer_reactor.h"
#include "server/rpc/call/call_scope.h"
#include "server/rpc/stream/streams.h"
#include "server/rpc/tune/tune_messages.h"

namespace uopd::rpc {
namespace {

constexpr int kMaxWatchers = 256, kMaxWatchersOfTenant = 64;  // in one process

// The right to watch.
class WatcherSlot {
 public:
  WatcherSlot() = default;
  ~WatcherSlot() {
    if (!held_) return;
    MutexLock lock(mu_);
    metrics::TuneWatchers().Set(--all_);
    if (const auto it = of_tenant_.find(tenant_); --it->second == 0) of_tenant_.erase(it);
  }
  WatcherSlot(const WatcherSlot&) = delete;
  WatcherSlot& operator=(const WatcherSlot&) = delete;

  absl::Status Take(const std::string& tenant) {
    MutexLock lock(mu_);
    const auto it = of_tenant_.find(tenant);
    const int own = it == of_tenant_.end() ? 0 : it->second;
    if (all_ >= kMaxWatchers || own >= kMaxWatchersOfTenant) {
      return absl::ResourceExhaustedError(Cat(own,
                                              " clients of this tenant, or too many of others, "
                                              "watch tuning operations: try again later"));
    }
    ++of_tenant_[tenant];
    metrics::TuneWatchers().Set(++all_);
    tenant_ = tenant;
    held_ = true;
    return absl::OkStatus();
  }

 private:
  static inline Mutex mu_;
  static inline int all_ UOPD_GUARDED_BY(mu_) = 0;
  static inline std::map<std::string, int> of_tenant_ UOPD_GUARDED_BY(mu_);
  std::string tenant_;
  bool held_ = false;
};

class TuneStream final : public grpc::ServerWriteReactor<v1::WatchTuneResponse>,
                         public WatchedStream,
                         public std::enable_shared_from_this<TuneStream> {
 public:
  TuneStream(engine::Engine& engine, StreamWatch& watch, grpc::CallbackServerContext* context,
             const v1::WatchTuneRequest& request)
      : engine_(engine),
        watch_(watch),
        context_(*context),
        id_(request.id()),
        scope_(engine, *context, Method::kWatchTune) {
    NameCaller(*context, "", scope_.request().caller);
    scope_.request().EndWith(cancellation_);
  }

  void Start() {
    self_ = shared_from_this();
    watch_.Add(self_);
    absl::Status status = scope_.admitted();
    if (status.ok()) status = slot_.Take(scope_.tenant());
    if (!status.ok()) return End(status);
    scope_.ReleaseWork();
    Post();
  }

  void OnWriteDone(bool ok) override {
    wait_.End();  // no effect if cancelled: this write then fails
    unread_ = {};
    if (!ok) return End(absl::CancelledError("client does not read any more"));
    if (more_) return Post();
    busy_.store(false, std::memory_order_release);
  }

  void OnCancel() override {
    const auto alive = shared_from_this();
    cancellation_->Cancel();
    // If the stream is busy, what it does ends it, or the next look does.
    if (TryEnter()) End(absl::CancelledError("client does not watch any more"));
  }

  // Called ten times a second.
  void EndIfIdle(int64_t now_ns, const WatchLimits& limits) override {
    if (wait_.Overdue(now_ns - IdleLimitNs(limits))) context_.TryCancel();
    if (!TryEnter()) return;
    const bool new_things = op_ != nullptr && (op_->version() != version_ || IsReplaced());
    if (new_things || limits.draining || cancellation_->cancelled() || !scope_.CheckToken().ok())
      return Post();
    busy_.store(false, std::memory_order_release);
  }

  void OnDone() override {
    watch_.Remove(this);
    self_ = nullptr;  // *this may be gone
  }

 private:
  bool TryEnter() { return !busy_.exchange(true, std::memory_order_acq_rel); }
  bool IsReplaced() { return engine_.tune_operations().IsReplaced(op_); }

  void Post() {
    engine_.task_pool().Post(scope_.request(), [self = shared_from_this()] { self->Next(); });
  }

  absl::Status Find() {
    UOPD_ASSIGN(op_, engine_.tune_operations().Find(scope_.request().caller, id_));
    id_ = op_->id();  // a longer id may be added that begins as the client's does
    return absl::OkStatus();
  }

  // OK: there may be a message.
  absl::StatusOr<engine::TuneChanges> Make() {
    UOPD_TRY(scope_.request().Check());
    UOPD_TRY(scope_.CheckToken());
    UOPD_ASSIGN(const engine::Work work, engine_.Begin());
    if (op_ == nullptr || IsReplaced()) {
      const bool first = op_ == nullptr;
      UOPD_TRY(Find());
      cursor_ = {};
      // The client forgets what it knows about the kernels of the other object.
      if (!first) cursor_.plans = engine::TuneCursor::kOtherObject;
    }
    version_ = op_->version();
    over_ = IsOver(op_->phase());  // read before the changes: with none, all was said
    return op_->Changes(cursor_);
  }

  void Next() {
    const absl::StatusOr<engine::TuneChanges> changes = Make();
    if (!changes.ok()) return End(changes.status());
    more_ = changes->more || over_;
    if (!changes->any) {
      if (over_) return End(absl::OkStatus());
      busy_.store(false, std::memory_order_release);
      return;
    }
    message_ = ToMessage(*changes);
    const int64_t bytes = HeldFor(message_);
    auto unread = engine_.unread().Hold(scope_.request().caller, bytes);
    if (!unread.ok()) return End(unread.status());
    unread_ = *std::move(unread);
    charge_ = engine::Charge::Always(engine_.client_bytes(), bytes, engine::ByteClass::kAnswers);
    wait_.Begin(NowNs());
    StartWrite(&message_);
  }

  void End(const absl::Status& status) { Finish(scope_.End(status)); }

  engine::Engine& engine_;
  StreamWatch& watch_;
  grpc::CallbackServerContext& context_;
  std::string id_;  // the client's, then the whole one
  CallScope scope_;
  WatcherSlot slot_;
  const std::shared_ptr<engine::Cancellation> cancellation_ =
      std::make_shared<engine::Cancellation>();
  ClientWait wait_;
  std::shared_ptr<TuneStream> self_;  // from Start to OnDone
  std::atomic<bool> busy_{true};      // until the first message is written
  engine::TuneOperations::OperationPtr op_;
  engine::TuneCursor cursor_;
  uint64_t version_ = 0;
  bool over_ = false, more_ = false;
  v1::WatchTuneResponse message_;
  engine::Charge charge_;  // for message_
  engine::UnreadAnswers::Held unread_;
};

}  // namespace

grpc::ServerWriteReactor<v1::WatchTuneResponse>* StartTuneWatch(
    engine::Engine& engine, StreamWatch& watch, grpc::CallbackServerContext* context,
    const v1::WatchTuneRequest* request) {
  auto stream = std::make_shared<TuneStream>(engine, watch, context, *request);
  stream->Start();
  return stream.get();  // alive at least until gRPC has called OnDone
}

}  // namespace uopd::rpc
