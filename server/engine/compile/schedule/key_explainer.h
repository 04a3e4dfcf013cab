// SPDX-License-Identifier: MIT
// Explains why a graph is or is not in the cache. It compares the keys of two graphs, or the key of
// a graph with the nearest key in the cache.
//
// Thread-safe. It compares schedules, because the cache has one per graph and environment. A search
// looks only at the entries used last (kMaxEntries, kMaxBytes).
#pragma once
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "cache/store.h"
#include "core/base/mutex.h"
#include "core/ir/analysis/diff.h"
#include "core/ir/io/wire.h"
#include "server/engine/base/device_set.h"
#include "server/engine/compile/schedule/graph.h"
#include "server/engine/compile/source/graph_compiler.h"

namespace uopd::engine {

struct KeyExplanation {
  Digest a;
  bool cached = false;  // the cache has a's schedule for this daemon's environment
  bool has_b = false;   // b was given, or an entry similar enough was found
  Digest b;
  bool search_refused = false;  // the nearest entry may be of another tenant
  double similarity = 0;        // of a and b, in [0, 1]: the share of ops in common
  // Environments are compared as "name=value" pairs: `field` is the name, `path` is "environment",
  // and no nodes are given.
  std::vector<ir::Difference> differences;
};

class KeyExplainer {
 public:
  static constexpr int64_t kMaxEntries = 256;
  static constexpr size_t kMaxBytes = 64 << 20;
  static constexpr size_t kMaxDifferences = 20;
  static constexpr int64_t kLoggedEntries = 16;  // how many entries LogMiss looks at

  // All references outlive the explainer.
  KeyExplainer(const GraphCompiler& graph_compiler, cache::Store& store, DeviceSet& devices,
               const GraphLimits& limits)
      : graph_compiler_(graph_compiler), store_(store), devices_(devices), limits_(limits) {}

  // Compares a and b, both compiled with `options`. If b is empty, compares a with the nearest
  // cached entry. That entry may be of any tenant, so only a caller who sees all has it looked for;
  // others get search_refused. NOT_FOUND (program): a digest that the cache does not know.
  // INVALID_ARGUMENT: the graph fails verification. Ends with the request.
  absl::StatusOr<KeyExplanation> Explain(const RequestContext& request, const GraphRef& a,
                                         const GraphRef& b, const CompileOptions& options = {});

  // Logs one line at level debug about a graph whose schedule is about to be made: the first
  // difference to the nearest of the kLoggedEntries entries used last. Does nothing at other
  // levels.
  void LogMiss(RequestContext& request, const ir::UOpContext& ctx, ir::UOp sink,
               const cache::Key& wanted);

 private:
  absl::StatusOr<std::unique_ptr<Graph>> Load(const GraphRef& ref, Interrupt& interrupt);
  absl::Status FindNearest(Interrupt& interrupt, const ir::UOpContext& ctx, ir::UOp sink,
                           const cache::Key& wanted, int64_t entries, KeyExplanation& out);
  // The sketch of a cached graph. Null if its bytes are not a valid graph, or `interrupt` is
  // raised.
  std::shared_ptr<const std::vector<uint32_t>> SketchOf(const Digest& address,
                                                        std::string_view bytes,
                                                        Interrupt& interrupt);

  const GraphCompiler& graph_compiler_;
  cache::Store& store_;
  DeviceSet& devices_;
  const GraphLimits limits_;
  Mutex mu_;
  // Keyed by the address of the entry. Cleared when it reaches 16 * kMaxEntries.
  absl::flat_hash_map<Digest, std::shared_ptr<const std::vector<uint32_t>>> sketches_
      UOPD_GUARDED_BY(mu_);
};

}  // namespace uopd::engine
