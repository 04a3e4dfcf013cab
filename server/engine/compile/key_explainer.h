// SPDX-License-Identifier: MIT
// Why a graph is or is not in the cache: what differs between the keys of two graphs, or between a
// graph's key and the nearest one that is cached.
//
// Thread-safe. Works on schedules, which are kept one per graph and environment. A search looks at
// the most recently used entries only (kMaxEntries, kMaxBytes).
#pragma once
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "cache/store.h"
#include "core/base/mutex.h"
#include "core/ir/diff.h"
#include "core/ir/wire.h"
#include "server/engine/compile/compile_service.h"

namespace uopd::engine {

struct KeyExplanation {
  Digest a;
  bool cached = false;  // a's schedule, under this daemon's environment
  bool has_b = false;   // b was given, or an entry was found that is worth a comparison
  Digest b;
  double similarity = 0;  // of a and b, in [0, 1]: which ops they have in common
  // Environments as "name=value" pairs; `field` is the name, `path` is "environment", no nodes.
  std::vector<ir::Difference> differences;
};

class KeyExplainer {
 public:
  static constexpr int64_t kMaxEntries = 256;
  static constexpr size_t kMaxBytes = 64 << 20;
  static constexpr size_t kMaxDifferences = 20;
  static constexpr int64_t kLoggedEntries = 16;  // that LogMiss looks at

  // All references outlive the explainer.
  KeyExplainer(const Pipeline& pipeline, cache::Store& store, DeviceSet& devices,
               const ir::WireLimits& limits)
      : pipeline_(pipeline), store_(store), devices_(devices), limits_(limits) {}

  // Compares a and b; with an empty b, a and the nearest cached entry. NOT_FOUND (program): a
  // digest that the cache does not know. INVALID_ARGUMENT: the graph does not verify.
  absl::StatusOr<KeyExplanation> Explain(RequestContext& request, const GraphRef& a,
                                         const GraphRef& b);

  // A line at level debug about a graph whose schedule is about to be made: what differs first from
  // the nearest of the kLoggedEntries entries used last. Nothing at other levels.
  void LogMiss(RequestContext& request, const ir::UOpContext& ctx, ir::UOp sink,
               const cache::Key& wanted);

 private:
  struct Graph {
    ir::UOpContext ctx;
    ir::UOp sink;
    std::string bytes;  // canonical
    Digest digest;
  };
  absl::StatusOr<std::unique_ptr<Graph>> Load(const GraphRef& ref);
  absl::StatusOr<std::unique_ptr<Graph>> DecodeGraph(std::string_view bytes);
  absl::Status FindNearest(RequestContext& request, const ir::UOpContext& ctx, ir::UOp sink,
                           const cache::Key& wanted, int64_t entries, KeyExplanation& out);
  // The sketch of a cached graph; null when its bytes are no graph.
  std::shared_ptr<const std::vector<uint32_t>> SketchOf(const Digest& address,
                                                        std::string_view bytes);

  const Pipeline& pipeline_;
  cache::Store& store_;
  DeviceSet& devices_;
  const ir::WireLimits limits_;
  Mutex mu_;
  // By address of the entry; emptied when it has grown to 16 * kMaxEntries.
  absl::flat_hash_map<Digest, std::shared_ptr<const std::vector<uint32_t>>> sketches_
      UOPD_GUARDED_BY(mu_);
};

}  // namespace uopd::engine
