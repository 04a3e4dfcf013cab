// SPDX-License-Identifier: MIT
// Fusion: decides which values are written to memory, which kernel computes each value, and at
// which indices. Runs after Describe (describe.h) and before lowering (lowering.h).
//
// Nodes are visited from the STOREs to the inputs. A *demand* is one use of a node by a kernel: the
// index expressions per axis, the gate under which the element is needed, and the loops around it.
// A node is *realised* if its demands would compute it so often that writing it once and loading it
// is cheaper: one kernel (a *root*) writes it, and its consumers load it. Every other node is
// computed where it is needed.
//
// A root writes one or more outputs over one iteration space. A STORE or realised node joins a root
// over the same iteration space if the two have work or loads in common and no other kernel must
// run between them (sharing.h). A root that needs one of its own outputs has it in a register. A
// realised node that is also stored whole into a slot which nothing else uses lives in that slot.
//
// Cost model. work(x) is the number of operations for one element of x, if every element of its
// sources is computed once. trips(d) is how often demand d is evaluated if loop-invariant code is
// hoisted: the product of the sizes of its loops, down to the innermost loop that its index uses.
// x is realised if computing it for every trip costs more than computing it once, writing it, and
// loading it for every trip:
//
//   trips * work > elements * (work + realise_cost) + trips * load + launch_cost
//
// `launch_cost` is the cost of an empty kernel. A third way is to *stage* x: to keep it in memory
// inside of the kernel. x is staged if that is cheaper than both (staging.h). A sum that picks one
// of its terms (picks.h) loses its loop, so that this loop counts as one trip. A CAST that widens a
// small float is never realised: its source, with fewer bytes, may be.
//
// A sum or product of floats that has several demands is realised or staged whatever it costs: the
// order of its terms, and so its rounding, is that of one loop (docs/codegen/numbers.md).
//
// Invariants
//   (1) Every node has all of its demands before it is visited.
//   (2) Ranges are numbered within their root, so that equal kernels are equal graphs.
#pragma once
#include <set>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "core/base/status.h"
#include "core/ir/context.h"
#include "core/schedule/fusion/access.h"
#include "core/schedule/fusion/picks.h"
#include "core/schedule/schedule.h"

namespace uopd::schedule {

// A buffer: a slot of the graph, or a temporary.
struct Storage {
  enum Kind : uint8_t { kArgument, kTemporary };
  Kind kind = kArgument;
  int64_t index = 0;  // slot, or number of the temporary
  ir::Dtype dtype = ir::Dtype::Void;
  const ir::Shape* shape = nullptr;
  int64_t elements = 0;  // with every dimension at its largest
  int32_t device = 0;
  ir::UOp param;  // of a slot; null for a temporary
};

// One use of a node by a root.
struct Demand {
  const Access* access = nullptr;
  uint32_t root = 0;   // the root that needs the node
  uint32_t loops = 0;  // index into Fusion::loops: the loops around the demand
  ir::UOp after;       // the AFTER through which a PARAM is read; null: its value before all STOREs
  bool fills = false;  // computes a staged value; the node's other demands load that value
  std::vector<ir::UOp> reduce_ranges;  // REDUCE: the ranges made for this demand
  // Index into Fusion::sources, which has one demand for each value source from there on; unused if
  // the node is loaded or constant.
  uint32_t sources = 0;
  ir::UOp value;  // the expression that lowering made for this demand
};

// What a root writes: the value of a STORE, or a realised node.
struct Output {
  ir::UOp node;         // the STORE, or the realised node
  ir::UOp value;        // the node whose value is written
  uint32_t demand = 0;  // the demand of `value` that is written
  int32_t storage = -1;
  const Access* access = nullptr;  // the written element, as an index into the storage's shape
  std::vector<ir::UOp> after;      // STORE: the AFTERs in its target
  bool covers = false;             // STORE: writes all elements of the slot, in their order
  bool sole = false;               // `covers`, and nothing else reads or writes the slot
};

// An axis of a root's iteration space, of a size other than 1.
struct RootAxis {
  ir::UOp size;
  ir::UOp at;  // position along the axis, an expression over its ranges: mostly a single range
};

// One kernel; or one copy, of elements of outputs[0].value from copy_from on. The source of a copy
// is in memory.
struct Root {
  std::vector<Output> outputs;
  std::vector<ir::UOp> ranges;  // loops over the output, outermost first; axes of size 1 have none
  // Axes of size other than 1; filled only if at least one axis spans several ranges.
  std::vector<RootAxis> axes;
  uint32_t loops = 0;      // index into Fusion::loops of the list that equals `ranges`
  int64_t next_range = 0;  // axis id of the next range that is made in this root
  int32_t device = 0;
  bool is_copy = false;
  int64_t copy_from = 0;  // element
  bool alone = false;     // no other output may join
  ir::UOp scanned;        // the range that the running sums of the kernel run along, or null
  int32_t part = -1;      // Constraints::parts of all its outputs; -1: none
  int64_t staged_bytes = 0;
  uint64_t staged_ranges = 0;  // bits (UsedRanges) of the ranges around staged values
  double cached_bytes = 0;     // bytes that are read repeatedly because of staged values
  uint32_t height = 0;         // length of the longest chain of consumers
  absl::InlinedVector<uint32_t, 4> consumers, producers;  // roots

  size_t n_axes() const { return axes.empty() ? ranges.size() : axes.size(); }
  RootAxis axis(size_t i) const {
    return axes.empty() ? RootAxis{ranges[i].src(0), ranges[i]} : axes[i];
  }
};

// A value that its root keeps in memory inside of the kernel, see staging.h.
struct StagedValue {
  uint32_t demand = 0;          // the demand of the node that fills the memory
  std::vector<size_t> axes;     // the axes of the node that the memory has, in row-major order
  std::vector<ir::UOp> ranges;  // the loops that fill it, one along each of these axes
  ir::Dims dims;                // the largest sizes of these axes
};

// A mark and its share of the work of a node, see describe.h.
struct Read {
  uint64_t mark;
  double work;
};

struct NodeInfo {
  absl::InlinedVector<Demand, 1> demands;
  int32_t realised = -1;  // the root that writes the node; -1: none
  uint32_t output = 0;    // the output of that root
  int32_t staged = -1;    // index into Fusion::staged; -1: not staged
  // Facts computed from the sources upward, see describe.h.
  int32_t device = -1;  // -1: a value that needs no device
  const ir::Shape* shape = nullptr;
  ir::UOp base;   // PARAMs, AFTERs and movement ops: the PARAM that the node is a view of, or null
  ir::UOp under;  // AFTERs: the first node below that is no AFTER; chains of AFTERs can be long
  bool is_whole_base = false;  // only AFTERs are between the node and `base`
  double elements = 0, work = 0, memory_work = 0, leaves = 0, rest = 0, hoisted = 0;
  bool heavy = false;
  bool in_memory = false;  // assumed to be in memory (FusionOptions::in_memory)
  absl::InlinedVector<Read, 4> reads;
  // Positions of the heavy reductions that one element is computed from, down to values in memory;
  // at most kMaxProducts.
  absl::InlinedVector<uint32_t, 2> products;
};

// A request to divide a loop of a root into two: an inner one over `stride` elements of the axis,
// and one around it over the multiples of `stride`.
struct AxisCut {
  uint32_t node = 0;  // id of the first output of the root
  uint32_t axis = 0;  // of the root, counting axes of size other than 1
  int64_t stride = 0;
  auto operator<=>(const AxisCut&) const = default;
};

// A graph, the facts about its nodes, and the decisions for it.
struct Fusion {
  std::vector<ir::UOp> order;      // the graph, sources first
  std::vector<uint32_t> position;  // node id -> index into order, info
  std::vector<NodeInfo> info;
  std::vector<Root> roots;
  std::vector<Storage> storages;
  std::vector<std::string> devices;
  std::vector<std::vector<ir::UOp>> loops;  // lists of ranges, outermost first (Demand::loops)
  std::vector<uint32_t> sources;            // numbers of demands (Demand::sources)
  std::vector<StagedValue> staged;
  std::vector<AxisCut> cuts;  // cuts with which more values could be staged, for the next attempt
  // Cuts of reductions with which fewer values need be realised, for the next attempt
  // (reduce_cuts.h). Their `node` is the REDUCE, and their `axis` one of the axes of its source.
  std::vector<AxisCut> reduce_cuts;
  absl::flat_hash_map<int64_t, int32_t> slot_storage;  // slot -> index into storages
  absl::flat_hash_map<uint32_t, std::pair<uint32_t, uint32_t>> stores;  // STORE id -> root, output

  // Drops every decision; keeps the graph and its facts.
  void Restart();

  NodeInfo& at(ir::UOp u) { return info[position[u.id()]]; }
  const NodeInfo& at(ir::UOp u) const { return info[position[u.id()]]; }

  // The STORE whose value is the value of the AFTER `u`: its only STORE, which writes the whole
  // slot. Null if there is no such STORE.
  ir::UOp MaybeOnlyStore(ir::UOp u) const;
};

// What the next attempt must do, by node id. Failed attempts add to it until one succeeds; nothing
// is ever removed.
struct Constraints {
  absl::flat_hash_set<uint32_t> realise;  // nodes that must be realised
  absl::flat_hash_set<uint32_t> alone;    // STOREs and nodes that must not share a kernel
  std::set<AxisCut> cuts;                 // of one axis, each stride divides the next larger one
  std::set<AxisCut> reduce_cuts;          // the same of reductions
  // Nodes that a divided kernel writes at the end of one of its parts (LimitSizes), with the
  // number of the part. Nodes of one part may share a kernel with each other and with nothing else.
  absl::flat_hash_map<uint32_t, int32_t> parts;
  int32_t n_parts = 0;
  size_t size() const {
    return realise.size() + alone.size() + cuts.size() + reduce_cuts.size() + parts.size();
  }
  // Adds those cuts that the attempt wants and that keep the invariant of `cuts`.
  void AddCuts(const Fusion& attempt);
};

struct FusionOptions {
  double realise_cost = 0, launch_cost = 0;
  int64_t stage_bytes = 0;           // most bytes of a staged value; 0: nothing is staged
  std::vector<KernelLimits> limits;  // by device
  const Constraints* constraints = nullptr;
  // By position: nodes assumed to be realised or staged when work is estimated. Null: none. Which
  // nodes are is known only after fusing. The first attempt assumes none, so it overestimates the
  // work of their consumers; the later attempts assume the nodes of the first.
  const std::vector<bool>* in_memory = nullptr;
  const Picks* picks = nullptr;  // of the graph
  // By id: nodes whose rows need no array where they are staged (softmax_product.h). Null: none.
  const std::vector<bool>* online_rows = nullptr;
};

// Drops the decisions in f and makes new ones. REQUIRES: f comes from Describe. INVALID_ARGUMENT
// for a STORE into a buffer on another device, or through EXPAND or PAD.
absl::Status Fuse(ir::UOpContext& ctx, Accesses& accesses, const FusionOptions& options, Fusion& f);

// The sources of u that its value is computed from: no shapes, and no STOREs of an AFTER.
inline std::span<const ir::UOp> ValueSources(ir::UOp u) {
  using ir::Op;
  constexpr ir::OpSet kNone = {Op::SINK, Op::PARAM, Op::IOTA, Op::BIND, Op::DEFINE_VAR, Op::CONST};
  constexpr ir::OpSet kFirst = ir::kMovementOps | ir::OpSet{Op::AFTER};
  if (u.Is(kNone) || (u.Is(Op::STACK) && u.dtype() == ir::Dtype::Index)) return {};
  if (u.Is(Op::STORE)) return u.srcs().subspan(1, 1);
  return u.Is(kFirst) ? u.srcs().first(1) : u.srcs();
}

// True for constants and variables: the value is the same at every index, so kernels use the node
// itself.
inline bool IsUniform(ir::UOp u) { return u.Is(ir::OpSet{ir::Op::CONST, ir::Op::DEFINE_VAR}); }

}  // namespace uopd::schedule
