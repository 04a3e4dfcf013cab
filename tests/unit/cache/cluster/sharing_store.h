// SPDX-License-Identifier: MIT
// Stores in memory that share rows and leases by a FakeServer, as daemons of several machines do.
#pragma once
#include <memory>
#include <utility>
#include <vector>

#include "cache/cluster/cluster_leases.h"
#include "cache/memory/memory_tier.h"
#include "cache/store.h"
#include "tests/unit/cache/cluster/fake_server.h"

namespace uopd::cache {

inline std::unique_ptr<Store> SharingStore(std::shared_ptr<FakeServerState> server,
                                           ClusterOptions options,
                                           const RefillOptions& refill = {}) {
  const SteadyFn steady = options.steady;
  auto cluster = std::make_unique<Cluster>(std::make_unique<FakeServer>(std::move(server)),
                                           std::move(options));
  auto stats = std::make_unique<StatsTable>();
  std::vector<std::unique_ptr<Tier>> tiers;
  tiers.push_back(std::make_unique<MemoryTier>(int64_t{1} << 20, WallClockUs, *stats));
  auto leases = std::make_unique<ClusterLeases>(cluster->server(),
                                                std::make_unique<MemoryLeases>(WallClockUs),
                                                cluster->budget(), nullptr, WallClockUs, steady);
  return std::make_unique<Store>(std::move(stats), std::move(tiers), std::move(leases), WallClockUs,
                                 std::move(cluster), refill);
}

}  // namespace uopd::cache
