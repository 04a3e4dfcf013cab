// SPDX-License-Identifier: MIT
#include "server/engine/health.h"

#include <algorithm>
#include <chrono>

#include "core/base/telemetry/metrics.h"
#include "core/base/text.h"

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

Readiness Health::GetReadiness(bool reopen) {
  Readiness out;
  if (parts_.gate.leaving()) out.not_ready.push_back({"draining", "draining"});
  parts_.losses.Note();
  std::vector<devices::DeviceEntry> missing = parts_.devices.NotReady();
  absl::Status of_default;
  if (!parts_.gate.leaving()) {  // what else there is to say is of no use any more
    of_default = StatusOfDefault(parts_.devices, missing, reopen);
    if (!of_default.ok()) out.not_ready.push_back({"default_device", StatusText(of_default)});
    if (std::string why = parts_.maybe_forks == nullptr ? "" : parts_.maybe_forks->Unready();
        !why.empty())
      out.not_ready.push_back({"workers", std::move(why)});
    if (parts_.task_pool.AllBusyFor() > kBusyLimit) {
      out.not_ready.push_back(
          {"threads", Cat("all ", parts_.task_pool.threads(),
                          " threads for requests have been busy for over a second")});
    }
    if (parts_.compile.AllBusyFor() > kBusyLimit) {
      out.not_ready.push_back(
          {"graph_threads",
           "all threads for graphs that are not prepared yet have been busy for over a second"});
    }
    if (const auto late = parts_.watch.LongestOverdue(); late > kStuckLimit) {
      out.not_ready.push_back(
          {"stuck_device",
           Cat("a device is stuck: a run that was told to end ",
               std::chrono::duration_cast<std::chrono::seconds>(late).count(), " s ago goes on")});
    }
  }
  // That nothing is written may be wanted (cache.read_only), and so may a cache in memory
  // (cache.level=0).
  const cache::Health health = parts_.store.health();
  if (parts_.settings.cache_writes() ||
      (parts_.settings.cache_level() > 0 && health.state == cache::State::kMemory))
    AddCache(health, out.degraded);
  const std::string default_name = parts_.devices.names().front();
  for (const devices::DeviceEntry& entry : missing) {
    if (entry.name == default_name && !of_default.ok()) continue;
    out.degraded.push_back(
        {"device", Cat("device ", entry.name, " is not ready: ", StatusText(entry.status))});
  }
  if (cache::Cluster* const cluster = parts_.store.maybe_cluster();
      cluster != nullptr && cluster->AwayUs() > 0) {
    out.degraded.push_back(
        {"cluster", Cat("the server of the cluster has been away for ",
                        cluster->AwayUs() / 1'000'000, " s: this daemon goes on alone")});
  }
  return out;
}

std::vector<std::pair<std::string, bool>> Health::ReadyDevices(bool reopen) {
  parts_.losses.Note();
  std::vector<devices::DeviceEntry> missing = parts_.devices.NotReady();
  if (reopen) {
    std::erase_if(missing, [&](const devices::DeviceEntry& entry) {
      const auto device = parts_.devices.Get(entry.name);
      return device.ok() && (*device)->device().status().ok();
    });
  }
  std::vector<std::pair<std::string, bool>> out;
  for (const std::string& name : parts_.devices.names()) {
    const bool ready = std::ranges::none_of(
        missing, [&](const devices::DeviceEntry& entry) { return entry.name == name; });
    out.emplace_back(name, ready && !parts_.devices.CompilesOnly(name));
  }
  return out;
}

DaemonStatus Health::Status() {
  DaemonStatus out;
  out.started_us = started_us_;
  const Readiness readiness = GetReadiness(false);
  const std::vector<devices::DeviceEntry> missing = parts_.devices.NotReady();
  const auto memory = parts_.devices.Memory();
  for (const std::string& name : parts_.devices.names()) {
    DaemonStatus::Device& device = out.devices.emplace_back();
    device.name = name;
    for (const auto& [open, bytes] : memory) {
      if (open != name) continue;
      device.readiness = DeviceReadiness::kReady;
      device.memory = bytes;
    }
    for (const devices::DeviceEntry& entry : missing) {
      if (entry.name != name) continue;
      device.readiness = DeviceReadiness::kNotReady;
      device.reason = StatusText(entry.status);
    }
    if (parts_.devices.CompilesOnly(name)) device.readiness = DeviceReadiness::kCompileOnly;
  }
  out.sessions = parts_.sessions.size();
  out.most_sessions = parts_.sessions.max_sessions();
  for (const auto& [name, pool] : parts_.pools)
    out.pools.push_back({name, pool->waiting(), pool->busy(), pool->threads()});
  out.client_bytes = parts_.client_bytes.used();
  out.most_client_bytes = parts_.client_bytes.limit();
  out.resident_bytes =
      static_cast<int64_t>(metrics::ProcessResident().value());  // of the last second
  out.cache = parts_.store.health();
  out.most_cache_bytes = parts_.store.max_bytes();
  for (const cache::StatsSnapshot& stats : parts_.store.stats().Snapshot())
    out.cache_bytes += stats.bytes;
  const ContentStore::Usage contents = parts_.contents.usage();
  out.contents = {.memory_bytes = contents.memory.bytes,
                  .used_bytes = contents.memory.used_bytes,
                  .most_memory_bytes = contents.memory.most_bytes,
                  .disk_bytes = contents.files.bytes,
                  .most_disk_bytes = contents.files.most_bytes,
                  .memory_contents = contents.memory.contents,
                  .disk_contents = contents.files.contents};
  out.cluster = ClusterStatusOf(parts_.store.maybe_cluster());
  if (parts_.maybe_workers != nullptr) {
    out.workers = parts_.maybe_workers->Stats();
    for (const auto& job : parts_.maybe_workers->ListQuarantine()) ++out.quarantined[job.pool];
  }
  for (const size_t count : parts_.failures.Counts()) out.recent_failures += count;

  for (const auto* reasons : {&readiness.not_ready, &readiness.degraded}) {
    for (const ReadyReason& reason : *reasons) out.reasons.push_back(reason.text);
  }
  if (parts_.gate.leaving()) {
    out.state = DaemonState::kDraining;
  } else if (!readiness.not_ready.empty()) {
    out.state = DaemonState::kNotReady;
  } else if (!readiness.degraded.empty()) {
    out.state = DaemonState::kDegraded;
  }
  return out;
}

}  // namespace uopd::engine
