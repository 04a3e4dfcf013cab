// SPDX-License-Identifier: MIT
#include "server/engine/tune/tuning_service.h"

#include <utility>

#include "core/base/log.h"
#include "core/base/metrics.h"
#include "core/base/text.h"
#include "core/base/trace.h"
#include "server/engine/base/lookups.h"

namespace uopd::engine {
namespace {

constexpr char kStore[] = "tuning";
// A value that is there but cannot be read would send us round for ever.
constexpr int kMaxRounds = 8;

// Keeps a lease while a computation asks, from any of its threads, whether to go on.
class LeaseKeeper {
 public:
  LeaseKeeper(cache::Store& store, const cache::Key& key, int64_t token, int64_t ttl_us)
      : store_(store), key_(key), token_(token), ttl_us_(ttl_us), renew_at_ns_(Next()) {}

  // False once somebody else may compute.
  bool Held() {
    if (token_ == 0) return true;  // without a lease
    int64_t due = renew_at_ns_.load();
    if (NowNs() >= due && renew_at_ns_.compare_exchange_strong(due, Next())) {
      if (absl::IsAborted(store_.RenewLease(key_, token_, ttl_us_))) lost_.store(true);
    }
    return !lost_.load();
  }

 private:
  int64_t Next() const { return NowNs() + ttl_us_ * 1000 / 3; }

  cache::Store& store_;
  const cache::Key& key_;
  const int64_t token_, ttl_us_;
  std::atomic<int64_t> renew_at_ns_;
  std::atomic<bool> lost_{false};
};

}  // namespace

TuningService::TuningService(Options options, cache::Store& store, KernelTuner* tuner)
    : options_(std::move(options)), store_(store), tuner_(tuner) {
  if (tuner_ != nullptr) thread_ = std::thread([this] { Work(); });
}

void TuningService::Stop() {
  std::deque<TuningTask> dropped;
  {
    MutexLock lock(mu_);
    stopped_.store(true);
    dropped.swap(queue_);
  }
  wake_.notify_all();
  if (thread_.joinable()) thread_.join();
  for (size_t i = 0; i < dropped.size(); ++i) metrics::TuneQueue().Add(-1);
}

cache::Key TuningService::KeyOf(std::string_view graph, const devices::Device& device,
                                const CompileOptions& options) const {
  return {kStore, std::string(graph), tuner_->Environment(device, options)};
}

std::optional<TuningRecord> TuningService::Load(const cache::Key& key) {
  const cache::GetResult found = store_.Get(key);
  CountLookup(kStore, found.outcome);
  if (!found.hit()) return std::nullopt;
  auto record = TuningRecord::Decode(found.entry.bytes);
  if (record.ok()) return *std::move(record);
  CountCorrupt(kStore);
  return std::nullopt;
}

std::optional<TuningRecord> TuningService::Find(std::string_view graph,
                                                const devices::Device& device,
                                                const CompileOptions& options) {
  if (!offered() || options.beam == 0 || options.ignore_beam_cache) return std::nullopt;
  return Load(KeyOf(graph, device, options));
}

void TuningService::Add(TuningTask task) {
  if (!offered()) return;
  {
    MutexLock lock(mu_);
    if (stopped()) return;
    if (queue_.size() >= kMaxQueued) {
      metrics::TuneKernels({"dropped"}).Increment(task.kernels.size());
      return;
    }
    metrics::TuneQueue().Add(1);
    queue_.push_back(std::move(task));
  }
  wake_.notify_one();
}

void TuningService::Work() {
  for (;;) {
    TuningTask task;
    bool rest = false;
    {
      MutexLock lock(mu_);
      if (queue_.empty() && !stopped()) rest = true;
    }
    if (rest) tuner_->Rest();
    {
      MutexLock lock(mu_);
      lock.Wait(wake_, [this]() UOPD_REQUIRES(mu_) { return stopped() || !queue_.empty(); });
      if (stopped()) return;
      task = std::move(queue_.front());
      queue_.pop_front();
    }
    Run(task);
    metrics::TuneQueue().Add(-1);
  }
}

void TuningService::Run(TuningTask& task) {
  for (size_t i = 0; i < task.kernels.size() && !stopped(); ++i) {
    if (task.program.expired()) return;
    if (!task.kernels[i].done) TuneOne(task, i);
  }
}

void TuningService::TuneOne(TuningTask& task, size_t i) {
  const TuningTask::Kernel& kernel = task.kernels[i];
  const cache::Key key = KeyOf(kernel.graph, *kernel.device, task.options);
  if (failed_.contains(key.address())) return;
  const int64_t begin_ns = NowNs();
  auto obtained = Obtain(key, task, i);
  const double seconds = static_cast<double>(NowNs() - begin_ns) * 1e-9;
  absl::Status status = obtained.status();
  if (status.ok()) status = task.use(i, obtained->record);
  if (absl::IsCancelled(status)) {
    metrics::TuneKernels({"cancelled"}).Increment();
    return;
  }
  if (!status.ok()) {
    if (failed_.size() >= kMaxQueued) failed_.clear();  // they are tried again
    failed_.insert(key.address());
    metrics::TuneKernels({"failed"}).Increment();
    UOPD_LOG(kWarn, "a kernel could not be tuned", {"kernel", kernel.name}, {"status", status});
    return;
  }
  metrics::TuneKernels({obtained->found ? "found" : "tuned"}).Increment();
  if (!obtained->found) metrics::TuneDuration().Observe(seconds);
  const TuningRecord& record = obtained->record;
  UOPD_LOG(kInfo, "kernel tuned", {"kernel", kernel.name}, {"beam", task.options.beam},
           {"opts", Text(record.opts)}, {"us", record.seconds * 1e6},
           {"heuristic_us", record.heuristic_seconds * 1e6}, {"measured", record.measured},
           {"failed", record.failed}, {"found", obtained->found}, {"took_s", seconds});
}

absl::StatusOr<TuningService::Obtained> TuningService::Obtain(const cache::Key& key,
                                                              const TuningTask& task, size_t i) {
  const bool anew = task.options.ignore_beam_cache;
  const cache::WaitLimits limits{.cancelled = [this] { return stopped(); }};
  for (int round = 0; round < kMaxRounds; ++round) {
    if (stopped()) return absl::CancelledError("the daemon stops");
    if (!anew) {
      if (auto found = Load(key)) return Obtained{*std::move(found), true};
    }
    const cache::LeaseResult lease = store_.TryLease(key, options_.owner, options_.lease_us);
    if (lease.granted()) {
      // The one before us may have finished between our lookup and now.
      if (!anew) {
        if (auto found = Load(key)) {
          store_.ReleaseLease(key, lease.token).IgnoreError();
          return Obtained{*std::move(found), true};
        }
      }
      auto out = TuneUnderLease(key, task, i, lease.token);
      // The lease is somebody else's now: what that one finds is for all.
      if (absl::IsAborted(out.status())) continue;
      return out;
    }
    // Who tunes anew does not wait for the value, which is there.
    if (anew || lease.outcome == cache::LeaseOutcome::kUnavailable) break;
    store_.WatchReady(key, limits);
  }
  return TuneUnderLease(key, task, i, 0);
}

absl::StatusOr<TuningService::Obtained> TuningService::TuneUnderLease(const cache::Key& key,
                                                                      const TuningTask& task,
                                                                      size_t i, int64_t token) {
  const TuningTask::Kernel& kernel = task.kernels[i];
  LeaseKeeper keeper(store_, key, token, options_.lease_us);
  const int64_t begin_ns = NowNs();
  auto record = tuner_->Tune(kernel.graph, *kernel.device, task.options,
                             [&] { return stopped() || !keeper.Held(); });
  if (!record.ok()) {
    if (token != 0) store_.ReleaseLease(key, token).IgnoreError();  // else it ends by itself
    if (!stopped() && !keeper.Held()) return absl::AbortedError("the lease was lost");
    return record.status();
  }
  const int64_t cost_us = (NowNs() - begin_ns) / 1000;
  if (token == 0) {
    store_.Put(key, record->Encode(), cost_us).IgnoreError();  // counted by the store
    return Obtained{*std::move(record), false};
  }
  if (absl::IsAborted(store_.PutFenced(key, record->Encode(), cost_us, token))) {
    return absl::AbortedError("the lease was lost");
  }
  store_.ReleaseLease(key, token).IgnoreError();
  return Obtained{*std::move(record), false};
}

}  // namespace uopd::engine
