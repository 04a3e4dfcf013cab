// SPDX-License-Identifier: MIT
#include "core/schedule/fusion/realise_costs.h"

#include <algorithm>

#include "core/schedule/fusion/describe.h"
#include "core/schedule/fusion/used_ranges.h"

namespace uopd::schedule {
namespace {

using ir::Op;
using ir::UOp;

// A node with more demands is realised: the kernel would have code of its own for each demand.
constexpr size_t kMaxRepeatedDemands = 64;
// Of results of a sum: with fewer, a kernel of its own for what follows is not worth it
// (EndsInLanes).
constexpr double kManySums = 16384;
// A view or STACK with a higher index expression is realised.
constexpr uint16_t kMaxHeight = 64;

// The ops that take elements out of words, and how many of them may follow each other.
constexpr ir::OpSet kWordOps = {Op::AND, Op::OR, Op::SHR, Op::SHL};
constexpr int kMaxWordDepth = 9;

UOp WithoutMoves(UOp u) {
  while (u.Is(ir::kMovementOps)) u = u.src(0);
  return u;
}

// True for a CAST from a small float to f32 or f64. It costs nothing: codegen computes small floats
// in f32. tf32 is no exception, though it takes as many bytes.
bool WidensFloat(UOp u) {
  if (!u.Is(Op::CAST) || !ir::IsFloat(u.dtype()) || !ir::IsFloat(u.src(0).dtype())) return false;
  if (u.src(0).dtype() == ir::Dtype::TF32) return true;
  return ir::ByteSize(u.src(0).dtype()) < std::min<int64_t>(4, ir::ByteSize(u.dtype()));
}

}  // namespace

std::span<const UOp> RealiseCosts::NeededLoops(const Demand& d) const {
  const uint64_t used = d.access->ranges;
  const std::vector<UOp>& loops = f_.loops[d.loops];
  size_t needed = loops.size();
  while (needed > 0 && (used & UsedRanges::Bit(loops[needed - 1])) == 0) --needed;
  return std::span(loops).first(needed);
}

double RealiseCosts::Trips(const Demand& d, bool picks) const {
  double trips = 1;
  for (UOp range : NeededLoops(d)) {
    const UOp size = range.src(0);
    if (!picked_.empty() && picked_.contains(range.id())) {
      if (picks) return 0;
    } else if (size.Is(Op::CONST)) {
      trips *= static_cast<double>(size.const_int());
    } else {
      trips *= static_cast<double>(ctx_.BoundsOf(size).max);
    }
  }
  return trips;
}

double RealiseCosts::Trips(UOp u) const {
  if (!u.Is(ir::kElementwiseOps) && !u.Is(Op::REDUCE)) return 0;
  const NodeInfo& info = f_.at(u);
  if (info.work <= kLoadWork) return 0;  // computing u costs no more than loading it
  if (ConvertsFactor(u) || RoundsFactor(u)) return 0;
  if (WidensFloat(u)) return 0;   // its source takes fewer bytes
  if (UnpacksWords(u)) return 0;  // the words take as many bytes
  const bool picks = options_.picks->Picking(f_.position[u.id()]);
  double trips = 0;
  for (const Demand& d : info.demands) trips += Trips(d, picks);
  return trips;
}

double RealiseCosts::OfRealising(const NodeInfo& info, double trips) const {
  return std::max(1.0, info.elements) * (info.work + options_.realise_cost) + trips * kLoadWork +
         options_.launch_cost;
}

bool RealiseCosts::IsCrowded(UOp u, const NodeInfo& info) {
  const bool moves = u.Is(ir::kMovementOps);
  if (moves || u.Is(Op::STACK)) {
    if (std::ranges::any_of(info.demands,
                            [](const Demand& d) { return d.access->height > kMaxHeight; }))
      return true;
    if (moves) return false;
  } else if (!u.Is(ir::kElementwiseOps) && !u.Is(Op::REDUCE)) {
    return false;
  }
  return info.demands.size() > kMaxRepeatedDemands && info.work > kLoadWork;
}

bool RealiseCosts::EndsInLanes(UOp u) const {
  const NodeInfo& info = f_.at(u);
  if (!u.Is(Op::REDUCE) || u.reduce_op() != Op::ADD || info.elements < kManySums) return false;
  if (ir::IsInt(u.dtype())) return false;  // instructions sum up four products of bytes in a lane
  const UOp product = u.src(0);
  const auto axes = u.reduce_axes();
  if (!product.Is(Op::MUL) || product.src(0) == product.src(1) || axes.size() < 2) return false;
  const auto last = static_cast<int64_t>(ctx_.ShapeOf(product)->size()) - 1;
  if (std::find(axes.begin(), axes.end(), last) == axes.end()) return false;
  return std::ranges::any_of(info.demands, [&](const Demand& d) {
    return std::ranges::any_of(f_.roots[d.root].outputs, [&](const Output& out) {
      UOp value = out.value;
      while (value.Is(ir::kMovementOps)) value = value.src(0);
      return value != u;
    });
  });
}

bool RealiseCosts::ConvertsFactor(UOp u) const {
  const NodeInfo& info = f_.at(u);
  if (!u.Is(Op::CAST) || info.device < 0) return false;
  const UOp from = WithoutMoves(u.src(0));
  return ir::Bits(u.dtype()) == 32 &&
         (f_.at(from).memory_work <= kLoadWork || UnpacksWords(from)) &&
         options_.limits[static_cast<size_t>(info.device)].factors.Has(NumberOf(from.dtype()));
}

bool RealiseCosts::RoundsFactor(UOp u) const {
  const NodeInfo& info = f_.at(u);
  if (!u.Is(Op::CAST) || info.device < 0) return false;
  const UOp from = u.src(0);
  const KernelLimits& limits = options_.limits[static_cast<size_t>(info.device)];
  return limits.warp_products && ir::IsSmallFloat(u.dtype()) && ir::Bits(from.dtype()) == 32 &&
         f_.at(from).memory_work <= kLoadWork && limits.factors.Has(NumberOf(u.dtype()));
}

bool RealiseCosts::UnpacksWords(UOp u) const {
  const double elements = f_.at(u).elements;
  if (u.Is(Op::BITCAST) && ir::Bits(u.dtype()) < 32) u = WithoutMoves(u.src(0));
  if (u.Is(Op::CAST) && ir::IsInt(u.dtype()) && ir::Bits(u.dtype()) < 32)
    u = WithoutMoves(u.src(0));
  return u.Is(kWordOps) && u.dtype() == ir::Dtype::U32 &&
         HasBitsOfWords(u, elements, kMaxWordDepth);
}

bool RealiseCosts::HasBitsOfWords(UOp u, double elements, int depth) const {
  u = WithoutMoves(u);
  if (u.Is(Op::PARAM)) return f_.at(u).elements < elements;
  if (depth == 0) return false;
  const auto source = [&](size_t i) { return HasBitsOfWords(u.src(i), elements, depth - 1); };
  if (u.Is(Op::OR)) return source(0) && source(1);
  if (u.Is(Op::AND)) return source(WithoutMoves(u.src(0)).Is(Op::CONST) ? 1 : 0);
  return u.Is(kWordOps) && source(0);
}

}  // namespace uopd::schedule
