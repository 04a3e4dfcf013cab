// SPDX-License-Identifier: MIT
#include "server/engine/readiness.h"

#include <algorithm>
#include <chrono>

#include "core/base/telemetry/metrics.h"
#include "core/base/text.h"
#include "server/engine/engine.h"

namespace uopd::engine {
namespace {

// A run that was told to end and still runs after this time is stuck in its device. Kernels read
// the stop word several times in a tenth of a second.
constexpr std::chrono::seconds kStuckLimit{2};

// A client notices if its request waits longer than this for a thread.
constexpr std::chrono::seconds kBusyLimit{1};

// OK, or why the first device of the list cannot be used.
absl::Status StatusOfDefault(DeviceSet& devices, const std::vector<devices::DeviceEntry>& missing,
                             bool reopen) {
  if (reopen) {
    const auto device = devices.Get("");
    return device.ok() ? (*device)->device().status() : device.status();
  }
  const auto it = std::ranges::find(missing, devices.names().front(), &devices::DeviceEntry::name);
  return it == missing.end() ? absl::OkStatus() : it->status;
}

void AddCache(const cache::Health& cache, std::vector<ReadyReason>& out) {
  using cache::Fault, cache::State;
  if (cache.fault == Fault::kNewer)
    out.push_back({"cache_newer", Cat("the cache is of a newer version: ", cache.reason)});
  if (cache.fault == Fault::kFull) {
    out.push_back({"cache_full", Cat("the disk of the cache is full: ", cache.reason)});
  } else if (cache.state == State::kReadOnly) {
    out.push_back({"cache_read_only", Cat("the cache cannot be written: ", cache.reason)});
  } else if (cache.state == State::kMemory) {
    out.push_back({"cache_memory", Cat("the cache is in memory only: ", cache.reason)});
  }
}

}  // namespace

std::string Texts(const std::vector<ReadyReason>& reasons, std::string_view separator) {
  std::string out;
  for (const ReadyReason& reason : reasons) Append(out, out.empty() ? "" : separator, reason.text);
  return out;
}

void Publish(const Readiness& readiness) {
  const auto has = [](const std::vector<ReadyReason>& reasons, std::string_view name) {
    return std::ranges::find(reasons, name, &ReadyReason::name) != reasons.end();
  };
  metrics::Ready({"ready"}).Set(readiness.not_ready.empty() ? 1 : 0);
  metrics::Ready({"not_ready"}).Set(readiness.not_ready.empty() ? 0 : 1);
  metrics::Ready({"degraded"}).Set(readiness.degraded.empty() ? 0 : 1);
  for (const std::string_view name : kNotReadyReasons)
    metrics::Ready({name}).Set(has(readiness.not_ready, name) ? 1 : 0);
  for (const std::string_view name : kDegradedReasons)
    metrics::Ready({name}).Set(has(readiness.degraded, name) ? 1 : 0);
}

Readiness Engine::GetReadiness(bool reopen) {
  Readiness out;
  if (leaving()) out.not_ready.push_back({"draining", "draining"});
  NoteLosses();
  std::vector<devices::DeviceEntry> missing = devices_.NotReady();
  absl::Status of_default;
  if (!leaving()) {  // what else there is to say is of no use any more
    of_default = StatusOfDefault(devices_, missing, reopen);
    if (!of_default.ok()) out.not_ready.push_back({"default_device", StatusText(of_default)});
    if (std::string why = forks_ == nullptr ? "" : forks_->Unready(); !why.empty())
      out.not_ready.push_back({"workers", std::move(why)});
    if (task_pool_.AllBusyFor() > kBusyLimit) {
      out.not_ready.push_back(
          {"threads", Cat("all ", task_pool_.threads(),
                          " threads for requests have been busy for over a second")});
    }
    if (compile_.AllBusyFor() > kBusyLimit) {
      out.not_ready.push_back(
          {"graph_threads",
           "all threads for graphs that are not prepared yet have been busy for over a second"});
    }
    if (const auto late = watch_.LongestOverdue(); late > kStuckLimit) {
      out.not_ready.push_back(
          {"stuck_device",
           Cat("a device is stuck: a run that was told to end ",
               std::chrono::duration_cast<std::chrono::seconds>(late).count(), " s ago goes on")});
    }
  }
  // That nothing is written may be wanted (cache.read_only), and so may a cache in memory
  // (cache.level=0).
  const cache::Health health = store_->health();
  if (cache_writes_ || (cache_level_ > 0 && health.state == cache::State::kMemory))
    AddCache(health, out.degraded);
  const std::string default_name = devices_.names().front();
  for (const devices::DeviceEntry& entry : missing) {
    if (entry.name == default_name && !of_default.ok()) continue;
    out.degraded.push_back(
        {"device", Cat("device ", entry.name, " is not ready: ", StatusText(entry.status))});
  }
  if (cache::Cluster* const cluster = store_->maybe_cluster();
      cluster != nullptr && cluster->AwayUs() > 0) {
    out.degraded.push_back(
        {"cluster", Cat("the server of the cluster has been away for ",
                        cluster->AwayUs() / 1'000'000, " s: this daemon goes on alone")});
  }
  return out;
}

}  // namespace uopd::engine
