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

cache::Use UseOf(const CompileOptions& options) {
  if (!options.caches_tuning()) return cache::Use::kNone;
  return options.ignore_beam_cache ? cache::Use::kReplace : cache::Use::kReadAndKeep;
}

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

std::optional<TuningRecord> TuningService::Find(std::string_view graph,
                                                const devices::Device& device,
                                                const CompileOptions& options) {
  if (!offered() || options.beam == 0 || UseOf(options) != cache::Use::kReadAndKeep) {
    return std::nullopt;
  }
  const cache::GetResult found = store_.Get(KeyOf(graph, device, options));
  CountLookup(kStore, found.outcome);
  if (!found.hit()) return std::nullopt;
  auto record = TuningRecord::Decode(found.entry.bytes);
  if (record.ok()) return *std::move(record);
  CountCorrupt(kStore);
  return std::nullopt;
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
  const TuningTask::Kernel& kernel = task.kernels[i];
  cache::LoadOptions load{.limits = {.cancelled = [this] { return stopped(); }},
                          .lease_ttl_us = options_.lease_us,
                          .owner = options_.owner,
                          .use = UseOf(task.options)};
  auto tune = [&](const cache::WaitLimits& limits) -> absl::StatusOr<std::string> {
    UOPD_ASSIGN(const TuningRecord record,
                tuner_->Tune(kernel.graph, *kernel.device, task.options, limits.cancelled));
    return record.Encode();
  };
  for (;;) {
    UOPD_ASSIGN(const cache::Loaded loaded, flights_.LoadOrCompute(store_, key, load, tune));
    if (load.use == cache::Use::kReadAndKeep) CountLookup(kStore, loaded.lookup);
    const bool found = loaded.outcome != cache::LoadOutcome::kComputed;
    auto record = TuningRecord::Decode(*loaded.bytes);
    if (record.ok()) return Obtained{*std::move(record), found};
    if (!found || load.use != cache::Use::kReadAndKeep) return record.status();
    CountCorrupt(kStore);
    load.use = cache::Use::kReplace;
  }
}

}  // namespace uopd::engine
