// SPDX-License-Identifier: MIT
// The tensor graphs and kernels whose code is compared, in groups.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "core/base/status.h"

namespace uopd::digests {

struct GraphGroup {
  std::string name;
  bool quick;  // part of the short form
  // The wire forms of tensor graphs (IR level `tensor`), the same on every machine.
  std::function<absl::StatusOr<std::vector<std::string>>()> graphs;
};

// "works" (single operations of uopd-perf), "models.NAME", "networks.NAME", "zoo" (the model graphs
// of unit tests), and "random.N": 250 graphs of graph_generator from seed 250 * N on, twenty groups
// of them.
std::vector<GraphGroup> GraphGroups();

}  // namespace uopd::digests
