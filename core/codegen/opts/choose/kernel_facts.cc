// SPDX-License-Identifier: MIT
#include "core/codegen/opts/choose/kernel_facts.h"

#include <algorithm>

#include "core/codegen/attention/online.h"
#include "core/codegen/opts/opt_plan.h"
#include "core/codegen/passes/vectorise.h"
#include "core/ir/build.h"
#include "core/ir/graph.h"
#include "core/rules/instructions.h"

namespace uopd::codegen {

using ir::Dtype;
using ir::Op;
using ir::UOp;

namespace {
constexpr double kUnrollWhole = 16;   // a reduction of at most this many terms is unrolled whole
constexpr double kMostNarrow = 0.75;  // of the instructions: then narrower values decide the lanes

// Bytes of the widest element that an ALU op computes with.
int64_t ComputedBytes(UOp u) {
  if (u.Is(Op::THREEFRY)) return 4;  // of two words of 32 bits
  const auto bytes = [](Dtype d) {
    return ir::IsFloat(d) ? std::max<int64_t>(4, ir::ByteSize(d)) : ir::ByteSize(d);
  };
  int64_t out = bytes(u.dtype());
  for (UOp s : u.srcs()) out = std::max(out, s.dtype() == Dtype::Index ? 0 : bytes(s.dtype()));
  return out;
}
}  // namespace

KernelFacts::KernelFacts(ir::UOpContext& ctx, UOp sink, const Target& target)
    : ctx_(ctx), sink_(sink), target_(target), axes_(Axes(ctx, sink)) {
  staged_over_.resize(axes_.size());
  for (UOp a : axes_) {
    sizes_.push_back(static_cast<int64_t>(std::max<ir::Int128>(ctx.BoundsOf(a.src(0)).max, 1)));
    fixed_.push_back(a.src(0).Is(Op::CONST));
  }
  for (size_t a = 0; a < axes_.size(); ++a) number_[axes_[a].id()] = a;
  const auto order = ir::Toposort(ctx_, sink_);
  has_stages_ = std::any_of(order.begin(), order.end(), [](UOp u) { return u.Is(Op::STAGE); });
  states_ = StatesOf(ctx_, sink_);
  FindAxes(order);
  FindPaths(order);
  double terms = 1;
  bool fixed = reduces_ != 0;
  for (size_t a = 0; a < axes_.size(); ++a) {
    if ((reduces_ & Bit(a)) != 0) {
      terms *= static_cast<double>(sizes_[a]);
      fixed = fixed && fixed_[a];
    }
  }
  unrolls_whole_ = fixed && terms <= kUnrollWhole && !MultipliesMatrices(order);
  for (UOp u : order) {
    if (!u.Is(Op::CONST)) lines_[along_.at(u.id())] += std::max(rules::Instructions(u), 1.0);
    if (u.Is(Op::STAGE)) {
      NoteStage(u);
    } else if (u.Is(Op::REDUCE)) {
      NoteReduce(u);
    } else if (u.Is(Op::SCAN)) {
      alu_.push_back(PathOf(along_.at(u.id())));
      widest_ = std::max(widest_, ir::ByteSize(u.dtype()));
    } else if (u.Is({Op::LOAD, Op::STORE})) {
      NoteAccess(u);
    } else if (u.Is(ir::kAluOps) && u.dtype() != Dtype::Index && u.src(0).dtype() != Dtype::Index) {
      alu_.push_back(PathOf(along_.at(u.id())) | inside_[u.id()]);
      widest_ = std::max(widest_, ir::ByteSize(u.dtype()));
    }
  }
  FindLaneBytes(order);
}

// A value of the widest dtype should fill one register. Exception: a kernel without sums that does
// most of its arithmetic on values of half that size, so that these fill one register and the widest
// ones two.
void KernelFacts::FindLaneBytes(std::span<const UOp> order) {
  lane_bytes_ = widest_;
  if (reduces_ != 0 || has_stages_) return;
  double all = 0, narrow = 0;
  for (UOp u : order) {
    if (!u.Is(ir::kAluOps) || u.dtype() == Dtype::Index || along_.at(u.id()) == 0) continue;
    const double instructions = rules::Instructions(u);
    all += instructions;
    if (2 * ComputedBytes(u) <= widest_) narrow += instructions;
  }
  if (all > 0 && narrow >= kMostNarrow * all) lane_bytes_ = widest_ / 2;
}

// Whether two loads of a reduction depend on one output axis each that the other one does not: then
// a register tile shares both loads.
bool KernelFacts::MultipliesMatrices(std::span<const UOp> order) const {
  std::vector<AxisSet> along;
  for (UOp u : order) {
    const AxisSet mine = along_.at(u.id());
    if (u.Is(Op::LOAD) && (mine & reduces_) != 0) along.push_back(mine & ~Reduced());
  }
  for (AxisSet a : along) {
    for (AxisSet b : along) {
      if ((a & ~b) != 0 && (b & ~a) != 0) return true;
    }
  }
  return false;
}

// The loops around a node that depends on the axes `along`: the reduced axes in `along`, and all
// output axes up to the last one in `along`.
AxisSet KernelFacts::PathOf(AxisSet along) const {
  AxisSet out = 0;
  size_t last = 0;
  for (size_t a = 0; a < axes_.size(); ++a) {
    if ((along & Bit(a)) == 0) continue;
    if (IsReduce(a)) {
      out |= Bit(a);
    } else {
      last = a + 1;
    }
  }
  for (size_t a = 0; a < last; ++a) {
    if (!IsReduce(a)) out |= Bit(a);
  }
  return out;
}

AxisSet KernelFacts::BitsOf(std::span<const UOp> ranges) const {
  AxisSet out = 0;
  for (UOp r : ranges) out |= Bit(number_.at(r.id()));
  return out;
}

// Fills along_: the axes that each node depends on.
void KernelFacts::FindAxes(std::span<const UOp> order) {
  for (UOp u : order) {
    AxisSet mine = u.Is(Op::RANGE) ? Bit(number_.at(u.id())) : 0;
    for (UOp s : u.body()) mine |= along_.at(s.id());
    along_[u.id()] = mine & ~BitsOf(u.closed());
  }
}

// Fills inside_ (the path of the reductions that a node is below) and reduces_.
void KernelFacts::FindPaths(std::span<const UOp> order) {
  for (auto it = order.rbegin(); it != order.rend(); ++it) {
    const UOp u = *it;
    AxisSet path = inside_[u.id()];
    if (u.Is(Op::REDUCE)) {
      const AxisSet ranges = BitsOf(u.srcs().subspan(1));
      path = PathOf(along_.at(u.src(0).id()) | ranges);
      reduces_ |= ranges;
    }
    for (UOp s : u.srcs())
      inside_[s.id()] |= path & (along_.at(s.id()) & Reduced() ? ~AxisSet{0} : 0);
  }
}

void KernelFacts::NoteStage(UOp u) {
  for (UOp r : u.closed()) staged_over_[number_.at(r.id())] = true;
  if (!u.closed().empty() && SumsInside(u))
    staged_sums_.push_back({number_.at(u.closed().back().id()), along_.at(u.id())});
}

void KernelFacts::NoteReduce(UOp u) {
  const AxisSet under = along_.at(u.src(0).id()) | BitsOf(u.srcs().subspan(1));
  alu_.push_back(PathOf(under) | inside_[u.id()]);
  results_.push_back({BitsOf(u.srcs().subspan(1)), PathOf(along_.at(u.id())) | inside_[u.id()]});
}

void KernelFacts::NoteAccess(UOp u) {
  Access access;
  access.node = u;
  access.is_store = u.Is(Op::STORE);
  access.bytes = ir::ByteSize(u.src(0).dtype());
  access.is_gated = u.src(0).n_src() == 3;
  if (access.is_gated) access.gate_along = along_.at(u.src(0).src(2).id());
  // If reductions are unrolled whole, OrderLoops can place a load inside only the loops that it
  // depends on.
  access.path = unrolls_whole_
                    ? along_.at(u.id())
                    : PathOf(along_.at(u.id())) | (access.is_store ? 0 : inside_[u.id()]);
  for (UOp a : axes_) access.strides.push_back(StrideAlong(ctx_, u.src(0).src(1), a));
  const UOp from = u.src(0).src(0);
  if (!access.is_store && CanPack() && from.Is(Op::PARAM) && (access.path & reduces_) != 0) {
    for (size_t a = 0; a < axes_.size(); ++a) {
      if (access.strides[a] == 0 && !IsReduce(a) && IsRepeated(access, a))
        access.reuse *= static_cast<double>(sizes_[a]);
    }
  }
  if (from.Is(Op::PARAM))
    access.most = static_cast<double>(ir::Product(ir::MaxDims(ctx_, *ctx_.ShapeOf(from))));
  // Each iteration of the loops around a stage has its own elements; lanes are contiguous.
  const UOp state = MaybeState(from), array = state ? states_.at(state.id()) : from;
  for (size_t a = 0; a < axes_.size() && array.Is(Op::STAGE); ++a) {
    if (along_.contains(array.id()) && (along_.at(array.id()) & Bit(a)) != 0) access.strides[a] = 1;
  }
  accesses_.push_back(std::move(access));
  const Dtype d = u.src(0).dtype();
  const int64_t bytes = ir::IsFloat(d) ? std::max<int64_t>(4, ir::ByteSize(d)) : ir::ByteSize(d);
  widest_ = std::max(widest_, bytes);
}

// Whether each value of the stage needs a reduction of its own.
bool KernelFacts::SumsInside(UOp stage) const {
  const AxisSet closed = BitsOf(stage.closed());
  const auto varies = [&](UOp n) { return (along_.at(n.id()) & closed) != 0; };
  const auto inside = ir::Toposort(ctx_, stage.srcs().first(1), varies);
  return std::any_of(inside.begin(), inside.end(),
                     [&](UOp n) { return n.Is(Op::REDUCE) && varies(n); });
}

AxisSet KernelFacts::Reduced() const {
  AxisSet out = 0;
  for (size_t a = 0; a < axes_.size(); ++a) out |= IsReduce(a) ? Bit(a) : 0;
  return out;
}

double KernelFacts::Times(AxisSet path) const {
  double n = 1;
  for (size_t a = 0; a < axes_.size(); ++a)
    n *= (path & Bit(a)) != 0 ? static_cast<double>(sizes_[a]) : 1.0;
  return n;
}

}  // namespace uopd::codegen
