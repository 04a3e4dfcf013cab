// SPDX-License-Identifier: MIT
// Engine::Status: what operators ask about the daemon as a whole.
#include "core/base/telemetry/metrics.h"
#include "server/engine/engine.h"

namespace uopd::engine {

std::vector<std::pair<const char*, const TaskPool*>> Engine::Pools() {
  return {{"requests", &task_pool_},
          {"long_runs", &long_runs_},
          {"makings", &makings_},
          {"graphs", &compile_.pool_of_new_graphs()},
          {"own_graphs", &compile_.pool_of_own_graphs()},
          {"compile", &compilers_}};
}

DaemonStatus Engine::Status() {
  DaemonStatus out;
  out.started_us = started_us_;
  const Readiness readiness = GetReadiness(false);
  const std::vector<devices::DeviceEntry> missing = devices_.NotReady();
  const auto memory = devices_.Memory();
  for (const std::string& name : devices_.names()) {
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
    if (devices_.CompilesOnly(name)) device.readiness = DeviceReadiness::kCompileOnly;
  }
  out.sessions = sessions_.size();
  out.most_sessions = sessions_.max_sessions();
  for (const auto& [name, pool] : Pools())
    out.pools.push_back({name, pool->waiting(), pool->busy(), pool->threads()});
  out.client_bytes = total_.used();
  out.most_client_bytes = total_.limit();
  out.resident_bytes =
      static_cast<int64_t>(metrics::ProcessResident().value());  // of the last second
  out.cache = store_->health();
  out.most_cache_bytes = store_->max_bytes();
  for (const cache::StatsSnapshot& stats : store_->stats().Snapshot())
    out.cache_bytes += stats.bytes;
  out.cluster = ClusterStatusOf(store_->maybe_cluster());
  if (workers_ != nullptr) {
    out.workers = workers_->Stats();
    for (const auto& job : workers_->ListQuarantine()) ++out.quarantined[job.pool];
  }
  for (const size_t count : failures_.Counts()) out.recent_failures += count;

  for (const auto* reasons : {&readiness.not_ready, &readiness.degraded}) {
    for (const ReadyReason& reason : *reasons) out.reasons.push_back(reason.text);
  }
  if (leaving()) {
    out.state = DaemonState::kDraining;
  } else if (!readiness.not_ready.empty()) {
    out.state = DaemonState::kNotReady;
  } else if (!readiness.degraded.empty()) {
    out.state = DaemonState::kDegraded;
  }
  return out;
}

std::vector<SettingView> Engine::SettingsInEffect() {
  const MutexLock lock(settings_mu_);
  return settings_;
}

}  // namespace uopd::engine
