// SPDX-License-Identifier: MIT
#include "server/engine/operate/cluster_status.h"

#include <algorithm>

#include "core/base/status.h"

namespace uopd::engine {
namespace {

uint64_t Load(const std::atomic<int64_t>& count) {
  return static_cast<uint64_t>(std::max<int64_t>(count.load(std::memory_order_relaxed), 0));
}

}  // namespace

ClusterStatus ClusterStatusOf(const cache::Cluster* maybe_cluster) {
  ClusterStatus out;
  if (maybe_cluster == nullptr) return out;
  const cache::GuardedServer& server = *maybe_cluster->server();
  const cache::ClusterStats& stats = maybe_cluster->stats();
  out.configured = true;
  out.reachable = server.reachable();
  out.too_slow = server.too_slow();
  out.can_put = maybe_cluster->can_sign();
  if (server.told_daemons()) out.daemons = static_cast<uint64_t>(server.pace().daemons);
  out.queue_bytes = Load(stats.queued_bytes);
  const cache::GuardedServer::Failure failure = server.last_failure();
  if (!failure.status.ok()) {
    out.last_error = StatusText(failure.status);
    out.last_error_us = failure.at_us;
  }
  uint64_t refused = 0;
  for (size_t i = 0; i < stats.refused.size(); ++i) {
    const uint64_t count = Load(stats.refused[i]);
    if (count == 0) continue;
    out.refused.emplace_back(cache::Name(static_cast<cache::RecordFault>(i)), count);
    refused += count;
  }
  out.lookups = {{"hit", Load(stats.hits)},
                 {"miss", Load(stats.misses)},
                 {"refused", refused},
                 {"unavailable", Load(stats.unavailable)}};
  out.puts = {{"sent", Load(stats.puts)},
              {"stale", Load(stats.stale_puts)},
              {"failed", Load(stats.put_errors)},
              {"dropped", Load(stats.dropped)},
              {"refilled", Load(stats.refilled)}};
  return out;
}

}  // namespace uopd::engine
