// SPDX-License-Identifier: MIT
#include "server/engine/gauges.h"

#include <map>

#include "core/base/telemetry/metrics.h"
#include "server/engine/usage/tenant_usage.h"

namespace uopd::engine {
namespace {

constexpr std::chrono::seconds kPeriod{1};
constexpr std::chrono::seconds kUsagePeriod{5};
// Reading the usage of the cache takes at most this part of the time.
constexpr int kUsageShare = 100;

// Raises a counter that only this thread changes to a total that was counted elsewhere.
void RaiseTo(Counter& counter, uint64_t total) {
  const uint64_t now = counter.value();
  if (total > now) counter.Increment(total - now);
}

}  // namespace

Gauges::Gauges(Sources sources)
    : sources_(std::move(sources)), next_usage_(Clock::now() + kPeriod) {
  Publish();  // so that the series exist before the first request
  thread_ = std::thread([this] { Loop(); });
}

Gauges::~Gauges() {
  {
    const MutexLock lock(mu_);
    ending_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void Gauges::Loop() {
  for (;;) {
    {
      MutexLock lock(mu_);
      if (lock.WaitUntil(changed_, Clock::now() + kPeriod,
                         [&]() UOPD_REQUIRES(mu_) { return ending_; })) {
        return;
      }
    }
    Publish();
    if (sources_.also) sources_.also();
  }
}

void Gauges::Publish() {
  for (const auto& [name, pool] : sources_.pools) {
    metrics::PoolWaiting({name}).Set(static_cast<double>(pool->waiting()));
    metrics::PoolOldestWait({name}).Set(static_cast<double>(pool->OldestWaitNs()) * 1e-9);
    metrics::PoolBusy({name}).Set(pool->busy());
    metrics::PoolThreads({name}).Set(pool->threads());
  }
  metrics::ClientBytesLimit().Set(static_cast<double>(sources_.client_bytes.limit()));
  for (const auto& [name, memory] : sources_.devices.Memory()) {
    metrics::DeviceMemory({name, "used"}).Set(static_cast<double>(memory.used_bytes));
    metrics::DeviceMemory({name, "pooled"}).Set(static_cast<double>(memory.pooled_bytes));
    metrics::DeviceMemoryLimit({name}).Set(static_cast<double>(memory.limit_bytes));
  }
  const auto failures = sources_.failures.Counts();
  for (size_t kind = 0; kind < failures.size(); ++kind) {
    metrics::FailuresHeld({Name(static_cast<FailureKind>(kind))})
        .Set(static_cast<double>(failures[kind]));
  }
  sources_.devices.kernel_usage().Publish();
  sources_.devices.program_usage().Publish();
  sources_.devices.PublishBusy();
  processes_.Publish(sources_.maybe_forks == nullptr ? -1 : sources_.maybe_forks->pid());
  PublishTenants();
  PublishWorkers();
  PublishCache();
}

void Gauges::PublishWorkers() {
  if (sources_.maybe_workers == nullptr) return;
  const std::map<std::string, worker::SupervisorStats> pools = sources_.maybe_workers->Stats();
  for (const auto& [pool, sum] : pools) {
    RaiseTo(metrics::WorkerJobs({pool, "done"}), sum.done);
    RaiseTo(metrics::WorkerJobs({pool, "failed"}), sum.failed);
    RaiseTo(metrics::WorkerJobs({pool, "crashed"}), sum.crashed);
    RaiseTo(metrics::WorkerJobs({pool, "timed_out"}), sum.timed_out);
    RaiseTo(metrics::WorkerJobs({pool, "cancelled"}), sum.cancelled);
    RaiseTo(metrics::WorkerJobs({pool, "refused"}), sum.refused);
    metrics::Workers({pool, "busy"}).Set(sum.workers - sum.idle);
    metrics::Workers({pool, "idle"}).Set(sum.idle);
  }
  std::map<std::string, int> quarantined;
  for (const auto& [pool, sum] : pools) quarantined[pool] = 0;
  for (const auto& one : sources_.maybe_workers->ListQuarantine()) ++quarantined[one.pool];
  for (const auto& [pool, jobs] : quarantined) metrics::QuarantinedJobs({pool}).Set(jobs);
}

// A tenant whose sessions have ended stays at 0. Tenants without series of their own share one,
// "other".
void Gauges::PublishTenants() {
  for (auto& [tenant, share] : tenants_) share = {};
  for (const auto& [tenant, share] : sources_.sessions.ByTenant()) {
    SessionTable::TenantShare& sum = tenants_[TenantUse::Of(tenant).label()];
    sum.sessions += share.sessions;
    sum.bytes += share.bytes;
  }
  for (const auto& [tenant, share] : tenants_) {
    metrics::TenantSessions({tenant}).Set(static_cast<double>(share.sessions));
    metrics::TenantSessionBytes({tenant}).Set(static_cast<double>(share.bytes));
  }
}

void Gauges::PublishCache() {
  metrics::CacheMaxBytes().Set(static_cast<double>(sources_.store.max_bytes()));
  const Clock::time_point begin = Clock::now();
  if (begin < next_usage_) return;
  cache_.Publish(sources_.store);
  const Clock::time_point end = Clock::now();
  next_usage_ = end + std::max<Clock::duration>(kUsagePeriod, kUsageShare * (end - begin));
}

}  // namespace uopd::engine
