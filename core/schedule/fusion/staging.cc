// SPDX-License-Identifier: MIT
#include "core/schedule/fusion/staging.h"

#include <algorithm>

#include "core/ir/graph.h"
#include "core/ir/verify/spec.h"
#include "core/schedule/fusion/describe.h"

namespace uopd::schedule {
namespace {

using ir::Op;
using ir::OpSet;
using ir::Shape;
using ir::UOp;

constexpr double kStageWork = 2;  // cost of writing an element to the array, in operations
constexpr double kTileGain = 4;   // rows of a tile: a matrix product loads an operand once for them
constexpr double kCachedLoss = 1.0 / 64;  // share of the lost tiles that counts with a cache
constexpr double kUnitWork = 256;  // of a processor with blocks: with less each they do not pay
constexpr int64_t kStagesOfAKernel = 3;   // limit of the staged bytes of a kernel, in stage_bytes
constexpr size_t kMaxStagedDemands = 16;  // a node with more demands is not staged
constexpr int64_t kMostOnlineBytes = int64_t{1} << 40;  // of a row that needs no array
constexpr int kMaxWay = 64;        // nodes that LostBelow follows down to a reduction
constexpr int64_t kMaxRange = 61;  // highest axis id that has a bit of its own in UsedRanges

// Bytes of one element in the array. Floats of less than 32 bits are computed and staged as f32.
int64_t StagedBytes(ir::Dtype dtype) {
  const int64_t bytes = ir::ByteSize(dtype);
  return ir::IsFloat(dtype) ? std::max<int64_t>(bytes, 4) : bytes;
}

UOp Uncast(UOp u) {
  while (u.Is(Op::CAST)) u = u.src(0);
  return u;
}

// The axes of a size other than 1.
absl::InlinedVector<size_t, 8> RealAxes(Shape shape) {
  absl::InlinedVector<size_t, 8> axes;
  for (size_t a = 0; a < shape.size(); ++a) {
    if (!shape[a].IsConstInt(1)) axes.push_back(a);
  }
  return axes;
}

}  // namespace

void Staging::NoteReduce(UOp u) {
  reduce_of_.resize(f_.loops.size());
  reduce_of_.back() = u;
}

UOp Staging::MaybeReduceOf(const Demand& d) const {
  return d.loops < reduce_of_.size() ? reduce_of_[d.loops] : UOp();
}

// True if the index is in [0, size) in every iteration.
bool Staging::IsInside(UOp index, UOp size) {
  if (index.Is(Op::RANGE) && index.src(0) == size) return true;
  const ir::Bounds at = ctx_.BoundsOf(index);
  return at.min >= 0 && at.max < ctx_.BoundsOf(size).min;
}

// The depth of nested reductions from u down to values that are assumed to be in memory.
uint32_t Staging::Depth(UOp u) {
  if (depth_.empty()) {
    depth_.resize(f_.order.size());
    for (size_t i = 0; i < f_.order.size(); ++i) {
      if (f_.info[i].in_memory) continue;
      for (UOp s : ValueSources(f_.order[i]))
        depth_[i] = std::max(depth_[i], depth_[f_.position[s.id()]]);
      depth_[i] += f_.order[i].Is(Op::REDUCE) ? 1 : 0;
    }
  }
  return depth_[f_.position[u.id()]];
}

// True if both demands become one after reductions with equal loops share them (ShareRanges).
bool Staging::Shares(UOp u, const Demand& a, const Demand& b) {
  const UOp of_a = MaybeReduceOf(a), of_b = MaybeReduceOf(b);
  if (!of_a || !of_b) return false;
  const auto &in_a = f_.loops[a.loops], &in_b = f_.loops[b.loops];
  if (in_a.size() != in_b.size() || Depth(of_a) != Depth(of_b)) return false;
  ir::Substitution map;
  for (size_t i = 0; i < in_a.size(); ++i) {
    if (in_a[i].src(0) != in_b[i].src(0)) return false;
    if (in_a[i] != in_b[i]) map[in_b[i].id()] = in_a[i];
  }
  for (size_t i = 0; i < f_.at(u).shape->size(); ++i) {
    if (ir::Substitute(ctx_, b.access->index[i], map) != a.access->index[i]) return false;
  }
  return ir::Substitute(ctx_, b.access->gate, map) == a.access->gate;
}

// The share of the trips of all demands that is left after loops are shared, in (0, 1].
double Staging::SharedTrips(UOp u) {
  const auto& demands = f_.at(u).demands;
  double all = 0, own = 0;
  for (size_t i = 0; i < demands.size(); ++i) {
    double trips = 1;
    for (UOp range : f_.loops[demands[i].loops]) trips *= Size(range);
    all += trips;
    bool shared = false;
    for (size_t j = 0; j < i && !shared; ++j) shared = Shares(u, demands[j], demands[i]);
    if (!shared) own += trips;
  }
  return all > 0 ? own / all : 1;
}

LoopList Staging::CommonLoops(const NodeInfo& info) const {
  const std::vector<UOp>& first = f_.loops[info.demands[0].loops];
  LoopList common(first.begin(), first.end());
  for (const Demand& d : info.demands) {
    const std::vector<UOp>& other = f_.loops[d.loops];
    const auto [end, unused] =
        std::mismatch(common.begin(), common.end(), other.begin(), other.end());
    common.erase(end, common.end());
  }
  const auto unfit = std::find_if(common.begin(), common.end(), [&](UOp range) {
    return range.axis_id() > kMaxRange || picked_.contains(range.id());
  });
  common.erase(unfit, common.end());
  return common;
}

// The cut of an output loop, see range_cut.h.
std::optional<RangeCut> Staging::MaybeOutputCut(UOp range, std::span<const UOp> indices) {
  if (range.axis_type() != ir::AxisType::LOOP) return std::nullopt;
  return MaybeCutOf(range, indices);
}

// True if the demand uses only a part of some loop, so that a cut is possible.
bool Staging::UsesAPart(const Demand& d) const {
  return std::ranges::any_of(f_.loops[d.loops], [&](UOp range) {
    return (d.access->ranges & UsedRanges::Bit(range)) != 0 &&
           MaybeOutputCut(range, d.access->index).has_value();
  });
}

double Staging::UsedSize(const StagePlan& plan, UOp range) {
  const auto cut = std::ranges::find(plan.cuts, range, &RangeCut::range);
  if (cut == plan.cuts.end()) return Size(range);
  return Size(range) * static_cast<double>(cut->inner) / static_cast<double>(cut->outer);
}

// The plan to stage u inside of `loops`: u is staged along all axes that the demands do not agree
// about with these loops. Removes from `loops` those inside of the innermost loop that is used.
// Output loops may be in any order, so if all loops are output loops, the prefix has only those
// that are used. `computed` becomes the number of elements that are computed. Nullopt if the array
// would be too large.
std::optional<StagePlan> Staging::Cut(UOp u, LoopList& loops, bool may_cut, double& computed) {
  const auto& demands = f_.at(u).demands;
  const Shape shape = *f_.at(u).shape;
  uint64_t around = 0, used = 0;
  for (UOp range : loops) around |= UsedRanges::Bit(range);
  StagePlan plan;
  IndexList kept;      // agreed indices that are expressions over ranges
  uint64_t whole = 0;  // bits of the ranges that are an agreed index themselves
  ir::Int128 elements = 1;
  for (size_t a = 0; a < shape.size(); ++a) {
    const UOp index = demands[0].access->index[a];
    const bool agreed = std::all_of(demands.begin(), demands.end(),
                                    [&](const Demand& d) { return d.access->index[a] == index; });
    const uint64_t in_index = agreed ? used_.In(index) : 0;
    if (agreed && (in_index & ~around) == 0 && IsInside(index, shape[a])) {
      used |= in_index;
      if (index.Is(Op::RANGE))
        whole |= in_index;
      else if (in_index != 0)
        kept.push_back(index);
      continue;
    }
    plan.axes.push_back(a);
    elements *= ctx_.BoundsOf(shape[a]).max;
    if (elements * StagedBytes(u.dtype()) > MostBytes(u) || elements == 0) return std::nullopt;
  }
  while (!loops.empty() && (used & UsedRanges::Bit(loops.back())) == 0) loops.pop_back();
  plan.loops = loops;
  if (std::all_of(loops.begin(), loops.end(),
                  [](UOp range) { return range.axis_type() == ir::AxisType::LOOP; })) {
    const auto unused = std::remove_if(plan.loops.begin(), plan.loops.end(), [&](UOp range) {
      return (used & UsedRanges::Bit(range)) == 0;
    });
    plan.loops.erase(unused, plan.loops.end());
    for (size_t i = 0; may_cut && !kept.empty() && i < plan.loops.size(); ++i) {
      if ((whole & UsedRanges::Bit(plan.loops[i])) != 0) continue;
      if (const auto cut = MaybeOutputCut(plan.loops[i], kept)) plan.cuts.push_back(*cut);
    }
  }
  plan.elements = static_cast<int64_t>(elements);
  computed = static_cast<double>(plan.elements);
  for (UOp range : plan.loops) computed *= UsedSize(plan, range);
  return plan;
}

// The factors of the product that the REDUCE sums; none if it combines something else.
absl::InlinedVector<Staging::Operand, 2> Staging::OperandsOf(UOp reduce) {
  const UOp product = Uncast(reduce.src(0));
  if (reduce.reduce_op() != Op::ADD || !product.Is(Op::MUL)) return {};
  if (f_.at(product.src(0)).leaves <= 1 || f_.at(product.src(1)).leaves <= 1) return {};
  absl::InlinedVector<Operand, 2> out;
  const size_t rank = ctx_.ShapeOf(product)->size();
  for (UOp s : product.srcs()) {
    const UOp expanded = Uncast(s), factor = expanded.Is(Op::EXPAND) ? expanded.src(0) : expanded;
    Operand& operand = out.emplace_back();
    operand.bytes = ir::ByteSize(factor.dtype());
    const Shape shape = *ctx_.ShapeOf(factor);
    for (size_t i = 0; i < shape.size(); ++i) {
      if (!shape[i].IsConstInt(1)) operand.varies |= uint64_t{1} << (rank - shape.size() + i);
    }
  }
  return out;
}

// Bytes that a thread can read repeatedly from its cache: half of the cache; other data take the
// rest.
double Staging::ReusedBytes(const Root& root) const {
  return static_cast<double>(options_.limits[static_cast<size_t>(root.device)].cache_bytes) / 2;
}

// Cost of threads without work, if the prefix has this many iterations and the array takes this
// much work. The outputs of the root do not count the work of staged values once these are known.
double Staging::LostThreads(const Root& root, double iterations, double array) const {
  const KernelLimits& limits = options_.limits[static_cast<size_t>(root.device)];
  // Blocks share no arrays: one block fills an array for each iteration of the prefix.
  const bool blocks = limits.units > 0;
  const double threads = blocks ? limits.units : limits.threads;
  if (iterations >= threads) return 0;
  double work = array >= threads * (blocks ? kUnitWork : limits.speeds.thread_work()) ? array : 0;
  for (const Output& out : root.outputs) {
    const NodeInfo& info = f_.at(out.value);
    work += info.elements * info.work;
  }
  return work * (threads / std::max(iterations, 1.0) - 1);
}

// Lost tiles of the reductions that consume u: the cost of loading operands again in every
// iteration of the prefix, if they are not in the cache. Adds the bytes of these operands to
// plan.cached_bytes.
double Staging::LostByConsumers(UOp u, StagePlan& plan) {
  double lost = 0;
  for (const Demand& d : f_.at(u).demands) {
    const UOp reduce = MaybeReduceOf(d);
    if (!reduce) continue;
    const UOp product = reduce.src(0);
    const auto& demands = f_.at(product).demands;
    const auto asked = std::find_if(demands.begin(), demands.end(),
                                    [&](const Demand& p) { return p.loops == d.loops; });
    if (asked == demands.end()) continue;
    for (const Operand& operand : OperandsOf(reduce)) {
      uint64_t used = 0;
      for (size_t a = 0; a < asked->access->index.size(); ++a) {
        if ((operand.varies >> a & 1) != 0) used |= used_.In(asked->access->index[a]);
      }
      double rows = 1, bytes = static_cast<double>(operand.bytes), trips = 1;
      const std::vector<UOp>& loops = f_.loops[d.loops];
      for (UOp range : loops) {
        const double size = Size(range);
        const bool varies = (used & UsedRanges::Bit(range)) != 0;
        const bool around = std::ranges::find(plan.loops, range) != plan.loops.end();
        const double outer = around ? UsedSize(plan, range) : 1;
        trips *= size;
        rows *= varies ? 1 : outer;
        bytes *= varies ? size / outer : 1;
      }
      if (rows > 1) plan.cached_bytes += bytes;
      lost += trips * kLoadWork * (std::min(rows, kTileGain) - 1);
    }
  }
  return lost;
}

// The same for the reduction that u is computed from through elementwise ops.
double Staging::LostBelow(UOp u, const Root& root, StagePlan& plan) {
  UOp v = u;
  for (int steps = 0; !v.Is(Op::REDUCE); ++steps) {
    if (steps == kMaxWay) return 0;
    UOp next;
    for (UOp s : ValueSources(v)) {
      const NodeInfo& info = f_.at(s);
      if (!info.in_memory && info.elements == f_.at(u).elements &&
          (!next || info.work > f_.at(next).work))
        next = s;
    }
    if (!next || !v.Is(ir::kElementwiseOps | OpSet{Op::RESHAPE})) return 0;
    v = next;
  }
  const Shape mine = *f_.at(u).shape, sums = *ctx_.ShapeOf(v), terms = *ctx_.ShapeOf(v.src(0));
  const auto from = RealAxes(mine), to = RealAxes(sums);
  bool aligned = from.size() == to.size();
  for (size_t i = 0; i < from.size() && aligned; ++i) aligned = mine[from[i]] == sums[to[i]];
  const NodeInfo& info = f_.at(u);
  const double elements = info.elements;
  if (!aligned) {
    plan.cached_bytes += 2 * ReusedBytes(root);
    return elements * info.work * (kTileGain - 1);
  }
  uint64_t agreed = 0;
  for (size_t i = 0; i < from.size(); ++i) {
    if (std::find(plan.axes.begin(), plan.axes.end(), from[i]) == plan.axes.end())
      agreed |= uint64_t{1} << to[i];
  }
  double lost = 0;
  for (const Operand& operand : OperandsOf(v)) {
    double rows = 1, bytes = static_cast<double>(operand.bytes), all = 1;
    for (size_t a = 0; a < terms.size(); ++a) {
      const auto size = static_cast<double>(ctx_.BoundsOf(terms[a]).max);
      const bool varies = (operand.varies >> a & 1) != 0;
      all *= size;
      if ((agreed >> a & 1) != 0)
        rows *= varies ? 1 : size;
      else
        bytes *= varies ? size : 1;
    }
    if (rows > 1) plan.cached_bytes += bytes;
    lost += all * kLoadWork * (std::min(rows, kTileGain) - 1);
  }
  return lost;
}

bool Staging::IsOnlineRow(UOp u) const {
  return options_.online_rows != nullptr && u.id() < options_.online_rows->size() &&
         (*options_.online_rows)[u.id()];
}

int64_t Staging::MostBytes(UOp u) const {
  if (IsOnlineRow(u)) return kMostOnlineBytes;
  const auto device = static_cast<size_t>(f_.roots[f_.at(u).demands[0].root].device);
  return std::min(options_.stage_bytes, options_.limits[device].stage_bytes);
}

std::optional<StagePlan> Staging::Plan(UOp u, double all_trips, bool may_cut) {
  if (options_.stage_bytes == 0 || !u.Is(ir::kElementwiseOps | OpSet{Op::REDUCE}))
    return std::nullopt;
  const NodeInfo& info = f_.at(u);
  // Most nodes are cheap, or have one demand that uses all loops around it: nothing to gain.
  if (info.demands.empty() || info.demands.size() > kMaxStagedDemands) return std::nullopt;
  if (info.demands.size() == 1) {
    const Demand& d = info.demands[0];
    if (std::ranges::all_of(
            f_.loops[d.loops],
            [&](UOp range) { return (d.access->ranges & UsedRanges::Bit(range)) != 0; }) &&
        !(may_cut && all_trips > info.elements && UsesAPart(d)))
      return std::nullopt;
  }
  const double work = info.work - info.hoisted, saved = all_trips * (work - kLoadWork);
  if (saved <= 2 * (work + kStageWork)) return std::nullopt;
  const uint32_t r = info.demands[0].root;
  const Root& root = f_.roots[r];
  for (const Demand& d : info.demands) {
    if (d.root != r || d.after) return std::nullopt;
  }
  if (options_.picks->Picking(f_.position[u.id()]) || root.is_copy) return std::nullopt;
  std::optional<StagePlan> best;
  double fewest = 0;
  for (LoopList loops = CommonLoops(info);;) {
    double computed = 0;
    std::optional<StagePlan> plan = Cut(u, loops, may_cut, computed);
    if (!plan) break;
    const bool around = std::find(loops.begin(), loops.end(), root.scanned) != loops.end();
    if (!around && !plan->axes.empty() && (!best || computed < fewest)) {
      best = std::move(plan);
      fewest = computed;
    }
    if (loops.empty()) break;
    loops.pop_back();
  }
  if (!best) return std::nullopt;
  const auto without_cuts = [&] {
    return best->cuts.empty() ? std::nullopt : Plan(u, all_trips, false);
  };
  if (saved <= fewest * (work + kStageWork)) return without_cuts();
  best->bytes = best->elements * StagedBytes(u.dtype());
  if (root.staged_bytes + best->bytes > kStagesOfAKernel * MostBytes(u)) return std::nullopt;
  double trips = all_trips;
  if (info.demands.size() > 1) trips *= SharedTrips(u);
  best->cost = fewest * (work + kStageWork) + trips * kLoadWork +
               LostThreads(root, fewest / static_cast<double>(best->elements), fewest * work);
  const double tiles = LostByConsumers(u, *best) + LostBelow(u, root, *best);
  // A block of threads copies the operands that its rows share.
  if (IsOnlineRow(u)) best->cached_bytes = 0;
  const bool cached = root.cached_bytes + best->cached_bytes <= ReusedBytes(root);
  best->cost += cached ? tiles * kCachedLoss : tiles;
  if (best->cost >= trips * work) return without_cuts();
  // The caller compares the cost with that of realising u, which includes hoisted work.
  best->cost += info.elements * info.hoisted;
  return best;
}

}  // namespace uopd::schedule
