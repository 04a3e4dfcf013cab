// SPDX-License-Identifier: MIT
// Which values get memory of their own, in which kernel each is computed, and at which indices.
//
// Nodes are visited from the stores to the inputs. A *demand* is one index at which some kernel
// needs a node: the index expressions per axis, the gate under which it matters, and the loops
// around it. A node whose demands would compute it so often that writing it once and reading it
// back is cheaper is *realised*: a kernel (a *root*) writes it, and its consumers load it.
// Everything else is computed where it is needed.
//
// A root writes one or more outputs over one iteration space. A STORE or realised node joins a root
// over the same space if the two share work or loads and no other kernel must run between them;
// what the root then needs of its own outputs it has in registers. A realised node that is also
// stored whole into a slot that nothing else touches lives in that slot.
//
// Cost model. work(x) is the number of operations for one element of x when its sources are
// computed once per element of theirs; trips(d) is how often a demand is evaluated when
// loop-invariant code is hoisted, i.e. the product of the loops down to the innermost one that its
// index uses. x is realised when computing it for every trip costs more than computing it once,
// writing it, and loading it for every trip:
//
//   trips * work > elements * (work + realise_cost) + trips * load + launch_cost
//
// The last is what a kernel costs that does nothing. Between the two lies memory that a kernel has
// to itself: x is *staged* where that is cheaper than both (staging.h).
//
// A sum that picks one of its terms (picks.h) loses its loop, so that loop is one trip.
//
// Ranges are numbered within their root, so that kernels which do the same have the same nodes.
#pragma once
#include <set>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "core/base/status.h"
#include "core/ir/context.h"
#include "core/schedule/access.h"
#include "core/schedule/picks.h"
#include "core/schedule/schedule.h"

namespace uopd::schedule {

// Where a value lives: a PARAM slot of the graph, or a temporary.
struct Storage {
  enum Kind : uint8_t { kArgument, kTemporary };
  Kind kind = kArgument;
  int64_t index = 0;  // slot, or number of the temporary
  ir::Dtype dtype = ir::Dtype::Void;
  const ir::Shape* shape = nullptr;
  int64_t elements = 0;  // at the largest of every dimension
  int32_t device = 0;
  ir::UOp param;  // of a slot
};

struct Demand {
  const Access* access = nullptr;
  uint32_t root = 0;   // kernel that asks
  uint32_t loops = 0;  // index into Fusion::loops
  ir::UOp after;       // the AFTER through which a PARAM is read; null: its value before all stores
  bool fills = false;  // it computes what is staged; the node's other demands load that
  std::vector<ir::UOp> reduce_ranges;  // REDUCE: the ranges made for this demand
  // Index into Fusion::sources of the demands of the value sources, one each; unused where the
  // source is loaded or a constant.
  uint32_t sources = 0;
  ir::UOp value;  // what lowering made of it
};

// What a root writes: a STORE's value, or a realised node.
struct Output {
  ir::UOp node;         // the STORE, or the realised node
  ir::UOp value;        // what is computed
  uint32_t demand = 0;  // of value
  int32_t storage = -1;
  const Access* access = nullptr;  // of the stored element: in the storage's shape
  std::vector<ir::UOp> after;      // AFTERs in the target of a STORE
  bool covers = false;             // STORE: writes the slot's elements all, in their order
  bool sole = false;               // covers, and nothing else reads or writes the slot
};

// An axis of a root's iteration space, of another size than 1.
struct RootAxis {
  ir::UOp size;
  ir::UOp at;  // over the ranges it is made of: most often that is one
};

// One kernel, or a copy to another device: of outputs[0].value, which is in memory, from element
// copy_from on.
struct Root {
  std::vector<Output> outputs;
  std::vector<ir::UOp> ranges;  // output loops, outermost first; size-1 axes have none
  // Those of no size 1, where some is several ranges; empty where each is one.
  std::vector<RootAxis> axes;
  uint32_t loops = 0;      // index into Fusion::loops: just `ranges`
  int64_t next_range = 0;  // axis id of the next one made in this root
  int32_t device = 0;
  bool is_copy = false;
  int64_t copy_from = 0;
  bool alone = false;  // nothing may join
  int32_t part = -1;   // Constraints::parts of all that it writes
  int64_t staged_bytes = 0;
  uint64_t staged_ranges = 0;  // bits (UsedRanges) of those around what is staged
  double cached_bytes = 0;     // that it reads again and again because of what it stages
  uint32_t height = 0;         // longest chain of roots that must follow
  absl::InlinedVector<uint32_t, 4> consumers, producers;

  size_t n_axes() const { return axes.empty() ? ranges.size() : axes.size(); }
  RootAxis axis(size_t i) const {
    return axes.empty() ? RootAxis{ranges[i].src(0), ranges[i]} : axes[i];
  }
};

// A value that its root computes into memory of its own, see staging.h.
struct StagedValue {
  uint32_t demand = 0;          // of the node, which fills it
  std::vector<size_t> axes;     // of the node, that the memory has; row-major
  std::vector<ir::UOp> ranges;  // along these
  ir::Dims dims;                // their largest sizes
};

// See describe.h.
struct Read {
  uint64_t mark;
  double work;
};

struct NodeInfo {
  absl::InlinedVector<Demand, 1> demands;
  int32_t realised = -1;  // root that writes it
  uint32_t output = 0;    // which of its outputs it is
  int32_t staged = -1;    // index into Fusion::staged
  // Facts from the sources up, see describe.h.
  int32_t device = -1;  // -1: a constant
  const ir::Shape* shape = nullptr;
  // Of AFTERs and movement ops: the PARAM below, or null; whether there are only AFTERs on the way;
  // of an AFTER, the first node below that is none. Chains of states can be long.
  ir::UOp base, under;
  bool is_whole_base = false;
  double elements = 0, work = 0, memory_work = 0, leaves = 0, rest = 0, hoisted = 0;
  bool heavy = false;      // a REDUCE that uses each of its inputs often
  bool in_memory = false;  // as the options say
  absl::InlinedVector<Read, 4> reads;
};

// A loop of a root that should be two: one over `stride` elements of the axis, one around it.
struct AxisCut {
  uint32_t node = 0;  // id of the first output of the root
  uint32_t axis = 0;  // of the root
  int64_t stride = 0;
  auto operator<=>(const AxisCut&) const = default;
};

// A graph, and the decisions for it.
struct Fusion {
  std::vector<ir::UOp> order;      // the graph, sources first
  std::vector<uint32_t> position;  // node id -> index into order, info
  std::vector<NodeInfo> info;
  std::vector<Root> roots;
  std::vector<Storage> storages;
  std::vector<std::string> devices;
  std::vector<std::vector<ir::UOp>> loops;
  std::vector<uint32_t> sources;
  std::vector<StagedValue> staged;
  std::vector<AxisCut> cuts;                           // with which more would be staged
  absl::flat_hash_map<int64_t, int32_t> slot_storage;  // slot -> storage
  absl::flat_hash_map<uint32_t, std::pair<uint32_t, uint32_t>> stores;  // STORE id -> root, output

  // Forgets every decision; what is known of the graph itself stays.
  void Restart();

  NodeInfo& at(ir::UOp u) { return info[position[u.id()]]; }
  const NodeInfo& at(ir::UOp u) const { return info[position[u.id()]]; }

  // The STORE that alone made the state which the AFTER `u` stands for, if it wrote all of it; else
  // null. The value of u is then the STORE's value.
  ir::UOp MaybeOnlyStore(ir::UOp u) const;
};

// What earlier attempts have shown, by node id; grows until an order of kernels exists.
struct Constraints {
  absl::flat_hash_set<uint32_t> realise;  // nodes that must have memory of their own
  absl::flat_hash_set<uint32_t> alone;    // STOREs and nodes that must not share a kernel
  std::set<AxisCut> cuts;                 // each stride of an axis divides the next
  // Nodes that a kernel which is too large writes at the end of one of its parts, with the number
  // of that part: those of one may share a kernel, and with nothing else.
  absl::flat_hash_map<uint32_t, int32_t> parts;
  int32_t n_parts = 0;
  size_t size() const { return realise.size() + alone.size() + cuts.size() + parts.size(); }
  // Those that go with the ones that are there.
  void Add(const std::vector<AxisCut>& more);
};

struct FusionOptions {
  double realise_cost = 0, launch_cost = 0;
  int64_t stage_bytes = 0;           // that a staged value may have; 0: nothing is staged
  std::vector<KernelLimits> limits;  // by device
  const Constraints* constraints = nullptr;
  // By position: nodes taken to be in memory, staged or not, when work is estimated. Which ones are
  // is only known after fusing, so the first attempt takes none, and overestimates the work of
  // everything above them; the next one takes what that one realised or staged. Null: none.
  const std::vector<bool>* in_memory = nullptr;
  const Picks* picks = nullptr;  // of the graph
};

// Decides anew. REQUIRES: f comes from Describe.
absl::Status Fuse(ir::UOpContext& ctx, Accesses& accesses, const FusionOptions& options, Fusion& f);

// Sources of u whose values u is computed from (not shapes, not ordering).
inline std::span<const ir::UOp> ValueSources(ir::UOp u) {
  using ir::Op;
  constexpr ir::OpSet kNone = {Op::SINK, Op::PARAM, Op::IOTA, Op::BIND, Op::DEFINE_VAR, Op::CONST};
  constexpr ir::OpSet kFirst = ir::kMovementOps | ir::OpSet{Op::AFTER};
  if (u.Is(kNone) || (u.Is(Op::STACK) && u.dtype() == ir::Dtype::Index)) return {};
  if (u.Is(Op::STORE)) return u.srcs().subspan(1, 1);
  return u.Is(kFirst) ? u.srcs().first(1) : u.srcs();
}

// Constants and variables: their value is the node itself at every index.
inline bool IsUniform(ir::UOp u) { return u.Is(ir::OpSet{ir::Op::CONST, ir::Op::DEFINE_VAR}); }

}  // namespace uopd::schedule
