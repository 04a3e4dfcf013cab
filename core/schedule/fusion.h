// SPDX-License-Identifier: MIT
// Which values get memory of their own, and at which indices every other value is computed.
//
// Nodes are visited from the stores to the inputs. A *demand* is one index at which some kernel
// needs a node: the index expressions per axis, the gate under which it matters, and the loops
// around it. A node whose demands would compute it so often that writing it once and reading it
// back is cheaper is *realised*: it becomes the root of a kernel with fresh ranges, and its
// consumers load it. Everything else is computed where it is needed.
//
// Cost model. work(x) is the number of operations for one element of x when its sources are
// computed once per element of theirs; trips(d) is how often a demand is evaluated when
// loop-invariant code is hoisted, i.e. the product of the loops down to the innermost one that its
// index uses. x is realised when (sum of trips - elements) * work > realise_cost * elements.
#pragma once
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "core/base/status.h"
#include "core/ir/context.h"
#include "core/rewrite/rewriter.h"
#include "core/schedule/movement.h"

namespace uopd::schedule {

// Where a value lives: a PARAM slot of the graph, or a temporary.
struct Storage {
  enum Kind : uint8_t { kArgument, kTemporary };
  Kind kind = kArgument;
  int64_t index = 0;  // slot, or number of the temporary
  ir::Dtype dtype = ir::Dtype::Void;
  ir::Dims dims;  // largest
  std::string device;
};

struct Demand {
  IndexList index;
  ir::UOp gate;
  uint32_t root = 0;   // kernel that asks
  uint32_t loops = 0;  // index into Fusion::loops
  ir::UOp after;       // the AFTER through which a PARAM is read; null: its value before all stores
  std::vector<ir::UOp> reduce_ranges;  // REDUCE: the ranges made for this demand
  std::vector<uint32_t> sources;  // per value source: its demand; unused where the source is loaded
};

// One kernel or copy: a STORE or a realised node.
struct Root {
  ir::UOp node;                 // the STORE, or the realised node
  ir::UOp value;                // what is computed
  std::vector<ir::UOp> ranges;  // output loops, outermost first; size-1 axes have none
  uint32_t demand = 0;          // of value
  uint32_t loops = 0;           // index into Fusion::loops: just `ranges`
  IndexList index;              // of the stored element: in the storage's dims
  ir::UOp gate;
  int32_t storage = -1;
  std::vector<ir::UOp> after;  // AFTERs in the target of a STORE
  bool is_copy = false;        // moves `value`'s storage to another device
  std::string device;
};

struct NodeInfo {
  std::vector<Demand> demands;
  int32_t realised = -1;  // root that writes it
  double work = 0;        // per element
};

// The decisions for a graph. `force` holds ids of nodes that must be realised whatever they cost.
struct Fusion {
  std::vector<ir::UOp> order;                        // the graph, sources first
  absl::flat_hash_map<uint32_t, uint32_t> position;  // node id -> index into order, info
  std::vector<NodeInfo> info;
  std::vector<Root> roots;
  std::vector<Storage> storages;
  std::vector<std::vector<ir::UOp>> loops;
  absl::flat_hash_map<int64_t, int32_t> slot_storage;  // slot -> storage

  NodeInfo& at(ir::UOp u) { return info[position.at(u.id())]; }
};

struct FusionOptions {
  std::string default_device;
  double realise_cost = 0;
  const absl::flat_hash_set<uint32_t>* force = nullptr;
};

absl::StatusOr<Fusion> Fuse(ir::UOpContext& ctx, rewrite::Rewriter& simplify, ir::UOp sink,
                            const FusionOptions& options);

// Sources of u whose values u is computed from (not shapes, not ordering).
std::span<const ir::UOp> ValueSources(ir::UOp u);

}  // namespace uopd::schedule
