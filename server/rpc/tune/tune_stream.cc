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
#include <string>
#include <utility>

#include "core/base/mutex.h"
#include "core/base/telemetry/metrics.h"
#include "core/base/text.h"
#include "server/rpc/stream/stream_reactor.h"
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

class TuneStream final : public StreamReactor<grpc::ServerWriteReactor<v1::WatchTuneResponse>> {
 public:
  TuneStream(engine::Engine& engine, StreamWatch& watch, grpc::CallbackServerContext* context,
             const v1::WatchTuneRequest& request)
      : StreamReactor(engine, watch, *context, Method::kWatchTune), id_(request.id()) {
    NameCaller(context_, "", StreamReactor::request().caller);
  }

  void OnWriteDone(bool ok) override {
    EndWait();          // no effect if cancelled: this write then fails
    sent_.unread = {};  // the charge stays: the message keeps its memory
    if (!ok) return End(WriteFailed());
    if (more_) return Post();
    busy_.store(false, std::memory_order_release);
  }

  // Called ten times a second.
  void EndIfIdle(int64_t now_ns, const WatchLimits& limits) override {
    if (wait_.Overdue(now_ns - IdleLimitNs(limits, WaitFor::kRoom))) context_.TryCancel();
    if (!TryEnter()) return;
    const bool new_things = op_ != nullptr && (op_->version() != version_ || IsReplaced());
    if (new_things || limits.draining || cancellation_->cancelled() || !scope_.CheckToken().ok())
      return Post();
    busy_.store(false, std::memory_order_release);
  }

 private:
  absl::Status Begin() override {
    UOPD_TRY(slot_.Take(scope_.tenant()));
    scope_.ReleaseWork();
    Post();
    return absl::OkStatus();
  }
  // If the stream is busy, what it does ends it, or the next look does.
  void Cancelled() override {
    if (TryEnter()) End(absl::CancelledError("client does not watch any more"));
  }

  bool TryEnter() { return !busy_.exchange(true, std::memory_order_acq_rel); }
  bool IsReplaced() { return engine_.operate().tune.IsReplaced(op_); }

  void Post() {
    engine_.task_pool().Post(request(), [self = Alive(this)] { self->Next(); });
  }

  absl::Status Find() {
    UOPD_ASSIGN(op_, engine_.operate().tune.Find(request().caller, id_));
    id_ = op_->id();  // a longer id may be added that begins as the client's does
    return absl::OkStatus();
  }

  // OK: there may be a message.
  absl::StatusOr<engine::TuneChanges> Make() {
    UOPD_TRY(request().Check());
    UOPD_TRY(scope_.CheckToken());
    UOPD_ASSIGN(const engine::Work work, engine_.gate().Begin());
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
    auto sent = SentMemory::Of(engine_, request().caller, message_);
    if (!sent.ok()) return End(sent.status());
    sent_ = *std::move(sent);
    BeginWait();
    StartWrite(&message_);
  }

  std::string id_;  // the client's, then the whole one
  WatcherSlot slot_;
  std::atomic<bool> busy_{true};  // until the first message is written
  engine::TuneOperations::OperationPtr op_;
  engine::TuneCursor cursor_;
  uint64_t version_ = 0;
  bool over_ = false, more_ = false;
  v1::WatchTuneResponse message_;
  SentMemory sent_;  // for message_
};

}  // namespace

grpc::ServerWriteReactor<v1::WatchTuneResponse>* StartTuneWatch(
    engine::Engine& engine, StreamWatch& watch, grpc::CallbackServerContext* context,
    const v1::WatchTuneRequest* request) {
  return TuneStream::Start<TuneStream>(engine, watch, context, *request);
}

}  // namespace uopd::rpc
