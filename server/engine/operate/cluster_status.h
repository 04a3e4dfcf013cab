// SPDX-License-Identifier: MIT
// The server that the daemons of a cluster share, as this daemon sees it: for operators.
#pragma once
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "cache/cluster/cluster.h"

namespace uopd::engine {

struct ClusterStatus {
  using Counts = std::vector<std::pair<std::string, uint64_t>>;

  bool configured = false;
  bool reachable = false, too_slow = false;
  bool can_put = false;
  uint64_t daemons = 0;  // 0: the server has not told
  uint64_t queue_bytes = 0;
  std::string last_error;  // empty: every question had an answer
  int64_t last_error_us = 0;
  Counts lookups, puts, refused;  // by result
};

// Null: there is no cluster.
ClusterStatus ClusterStatusOf(const cache::Cluster* maybe_cluster);

}  // namespace uopd::engine
