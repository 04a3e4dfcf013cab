// SPDX-License-Identifier: MIT
#include "core/codegen/opts/choose/kernel_facts.h"

#include <algorithm>
#include <span>

#include "absl/container/flat_hash_map.h"
#include "core/codegen/attention/online/online.h"
#include "core/codegen/opts/opt_plan.h"
#include "core/codegen/passes/vectors/vectorise.h"
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

// The axes that each node of the kernel depends on, and the loops around each node.
class NodePaths {
 public:
  // Fills facts.reduces. REQUIRES: facts.axes is filled. The facts must outlive the paths.
  NodePaths(KernelFacts& facts, std::span<const UOp> order) : facts_(facts) {
    for (size_t a = 0; a < facts.axes.size(); ++a) number_[facts.axes[a].id()] = a;
    FindAxes(order);
    FindPaths(order);
  }

  bool Contains(UOp u) const { return along_.contains(u.id()); }
  // The axes that the node depends on. REQUIRES: Contains(u).
  AxisSet Along(UOp u) const { return along_.at(u.id()); }
  // The path of the reductions that the node is below.
  AxisSet Inside(UOp u) const { return inside_.at(u.id()); }
  size_t NumberOf(UOp range) const { return number_.at(range.id()); }
  AxisSet BitsOf(std::span<const UOp> ranges) const;
  // The loops around a node that depends on the axes `along`: the reduced axes in `along`, and all
  // output axes up to the last one in `along`.
  AxisSet PathOf(AxisSet along) const;

 private:
  void FindAxes(std::span<const UOp> order);
  void FindPaths(std::span<const UOp> order);

  KernelFacts& facts_;
  absl::flat_hash_map<uint32_t, size_t> number_;           // id of a RANGE -> axis
  absl::flat_hash_map<uint32_t, AxisSet> along_, inside_;  // by node id: FindAxes, FindPaths
};

AxisSet NodePaths::BitsOf(std::span<const UOp> ranges) const {
  AxisSet out = 0;
  for (UOp r : ranges) out |= AxisBit(number_.at(r.id()));
  return out;
}

AxisSet NodePaths::PathOf(AxisSet along) const {
  AxisSet out = 0;
  size_t last = 0;
  for (size_t a = 0; a < facts_.axes.size(); ++a) {
    if ((along & AxisBit(a)) == 0) continue;
    if (IsReduce(facts_, a)) {
      out |= AxisBit(a);
    } else {
      last = a + 1;
    }
  }
  for (size_t a = 0; a < last; ++a) {
    if (!IsReduce(facts_, a)) out |= AxisBit(a);
  }
  return out;
}

// Fills along_: the axes that each node depends on.
void NodePaths::FindAxes(std::span<const UOp> order) {
  for (UOp u : order) {
    AxisSet mine = u.Is(Op::RANGE) ? AxisBit(number_.at(u.id())) : 0;
    for (UOp s : u.body()) mine |= along_.at(s.id());
    along_[u.id()] = mine & ~BitsOf(u.closed());
  }
}

// Fills inside_ (the path of the reductions that a node is below) and facts_.reduces.
void NodePaths::FindPaths(std::span<const UOp> order) {
  for (auto it = order.rbegin(); it != order.rend(); ++it) {
    const UOp u = *it;
    AxisSet path = inside_[u.id()];
    if (u.Is(Op::REDUCE)) {
      const AxisSet ranges = BitsOf(u.srcs().subspan(1));
      path = PathOf(along_.at(u.src(0).id()) | ranges);
      facts_.reduces |= ranges;
    }
    for (UOp s : u.srcs())
      inside_[s.id()] |= path & (along_.at(s.id()) & ReducedAxes(facts_) ? ~AxisSet{0} : 0);
  }
}

// Finds the facts of one kernel.
class FactsFinder {
 public:
  FactsFinder(KernelFacts& facts, std::span<const UOp> order)
      : facts_(facts),
        order_(order),
        states_(StatesOf(facts.ctx, facts.sink)),
        nodes_(facts, order) {}

  // REQUIRES: called once; what the facts say of each axis is filled.
  void Find();

 private:
  void FindLaneBytes();
  void NoteNode(UOp u);
  void NoteStage(UOp u);
  void NoteReduce(UOp u);
  void NoteAccess(UOp u);
  bool SumsInside(UOp stage) const;
  bool UnrollsWhole() const;
  bool MultipliesMatrices() const;

  KernelFacts& facts_;
  const std::span<const UOp> order_;
  const absl::flat_hash_map<uint32_t, UOp> states_;  // of ONLINE: see StatesOf
  const NodePaths nodes_;
};

void FactsFinder::Find() {
  facts_.unrolls_whole = UnrollsWhole();
  for (UOp u : order_) NoteNode(u);
  FindLaneBytes();
}

bool FactsFinder::UnrollsWhole() const {
  double terms = 1;
  bool fixed = facts_.reduces != 0;
  for (size_t a = 0; a < facts_.axes.size(); ++a) {
    if ((facts_.reduces & AxisBit(a)) == 0) continue;
    terms *= static_cast<double>(facts_.sizes[a]);
    fixed = fixed && facts_.fixed[a];
  }
  return fixed && terms <= kUnrollWhole && !MultipliesMatrices();
}

void FactsFinder::NoteNode(UOp u) {
  if (!u.Is(Op::CONST)) facts_.lines[nodes_.Along(u)] += std::max(rules::Instructions(u), 1.0);
  if (u.Is(Op::STAGE)) {
    NoteStage(u);
  } else if (u.Is(Op::REDUCE)) {
    NoteReduce(u);
  } else if (u.Is(Op::SCAN)) {
    facts_.alu.push_back(nodes_.PathOf(nodes_.Along(u)));
    facts_.widest = std::max(facts_.widest, ir::ByteSize(u.dtype()));
  } else if (u.Is({Op::LOAD, Op::STORE})) {
    NoteAccess(u);
  } else if (u.Is(ir::kAluOps) && u.dtype() != Dtype::Index && u.src(0).dtype() != Dtype::Index) {
    facts_.alu.push_back(nodes_.PathOf(nodes_.Along(u)) | nodes_.Inside(u));
    facts_.widest = std::max(facts_.widest, ir::ByteSize(u.dtype()));
  }
}

// A value of the widest dtype should fill one register. Exception: a kernel without sums that does
// most of its arithmetic on values of half that size, so that these fill one register and the
// widest ones two.
void FactsFinder::FindLaneBytes() {
  facts_.lane_bytes = facts_.widest;
  if (facts_.reduces != 0 || facts_.has_stages) return;
  double all = 0, narrow = 0;
  for (UOp u : order_) {
    if (!u.Is(ir::kAluOps) || u.dtype() == Dtype::Index || nodes_.Along(u) == 0) continue;
    const double instructions = rules::Instructions(u);
    all += instructions;
    if (2 * ComputedBytes(u) <= facts_.widest) narrow += instructions;
  }
  if (all > 0 && narrow >= kMostNarrow * all) facts_.lane_bytes = facts_.widest / 2;
}

// Whether two loads of a reduction depend on one output axis each that the other one does not: then
// a register tile shares both loads.
bool FactsFinder::MultipliesMatrices() const {
  std::vector<AxisSet> along;
  for (UOp u : order_) {
    const AxisSet mine = nodes_.Along(u);
    if (u.Is(Op::LOAD) && (mine & facts_.reduces) != 0)
      along.push_back(mine & ~ReducedAxes(facts_));
  }
  for (AxisSet a : along) {
    for (AxisSet b : along) {
      if ((a & ~b) != 0 && (b & ~a) != 0) return true;
    }
  }
  return false;
}

void FactsFinder::NoteStage(UOp u) {
  for (UOp r : u.closed()) facts_.staged_over[nodes_.NumberOf(r)] = true;
  if (!u.closed().empty() && SumsInside(u))
    facts_.staged_sums.push_back({nodes_.NumberOf(u.closed().back()), nodes_.Along(u)});
}

void FactsFinder::NoteReduce(UOp u) {
  const AxisSet under = nodes_.Along(u.src(0)) | nodes_.BitsOf(u.srcs().subspan(1));
  facts_.alu.push_back(nodes_.PathOf(under) | nodes_.Inside(u));
  facts_.results.push_back(
      {nodes_.BitsOf(u.srcs().subspan(1)), nodes_.PathOf(nodes_.Along(u)) | nodes_.Inside(u)});
}

void FactsFinder::NoteAccess(UOp u) {
  Access access;
  access.node = u;
  access.is_store = u.Is(Op::STORE);
  access.bytes = ir::ByteSize(u.src(0).dtype());
  access.is_gated = u.src(0).n_src() == 3;
  if (access.is_gated) access.gate_along = nodes_.Along(u.src(0).src(2));
  // If reductions are unrolled whole, OrderLoops can place a load inside only the loops that it
  // depends on.
  access.path = facts_.unrolls_whole
                    ? nodes_.Along(u)
                    : nodes_.PathOf(nodes_.Along(u)) | (access.is_store ? 0 : nodes_.Inside(u));
  for (UOp a : facts_.axes) access.strides.push_back(StrideAlong(facts_.ctx, u.src(0).src(1), a));
  const UOp from = u.src(0).src(0);
  if (!access.is_store && CanPack(facts_) && from.Is(Op::PARAM) &&
      (access.path & facts_.reduces) != 0) {
    for (size_t a = 0; a < facts_.axes.size(); ++a) {
      if (access.strides[a] == 0 && !IsReduce(facts_, a) && IsRepeated(facts_, access, a))
        access.reuse *= static_cast<double>(facts_.sizes[a]);
    }
  }
  if (from.Is(Op::PARAM))
    access.most =
        static_cast<double>(ir::Product(ir::MaxDims(facts_.ctx, *facts_.ctx.ShapeOf(from))));
  // Each iteration of the loops around a stage has its own elements; lanes are contiguous.
  const UOp state = MaybeState(from), array = state ? states_.at(state.id()) : from;
  for (size_t a = 0; a < facts_.axes.size() && array.Is(Op::STAGE); ++a) {
    if (nodes_.Contains(array) && (nodes_.Along(array) & AxisBit(a)) != 0) access.strides[a] = 1;
  }
  facts_.accesses.push_back(std::move(access));
  const Dtype d = u.src(0).dtype();
  const int64_t bytes = ir::IsFloat(d) ? std::max<int64_t>(4, ir::ByteSize(d)) : ir::ByteSize(d);
  facts_.widest = std::max(facts_.widest, bytes);
}

// Whether each value of the stage needs a reduction of its own.
bool FactsFinder::SumsInside(UOp stage) const {
  const AxisSet closed = nodes_.BitsOf(stage.closed());
  const auto varies = [&](UOp n) { return (nodes_.Along(n) & closed) != 0; };
  const auto inside = ir::Toposort(facts_.ctx, stage.srcs().first(1), varies);
  return std::any_of(inside.begin(), inside.end(),
                     [&](UOp n) { return n.Is(Op::REDUCE) && varies(n); });
}

}  // namespace

KernelFacts FactsOf(ir::UOpContext& ctx, UOp sink, const Target& target) {
  KernelFacts facts{.ctx = ctx, .sink = sink, .target = target, .axes = Axes(ctx, sink)};
  facts.staged_over.resize(facts.axes.size());
  for (UOp a : facts.axes) {
    facts.sizes.push_back(
        static_cast<int64_t>(std::max<ir::Int128>(ctx.BoundsOf(a.src(0)).max, 1)));
    facts.fixed.push_back(a.src(0).Is(Op::CONST));
  }
  const auto order = ir::Toposort(ctx, sink);
  facts.has_stages = std::any_of(order.begin(), order.end(), [](UOp u) { return u.Is(Op::STAGE); });
  FactsFinder(facts, order).Find();
  return facts;
}

AxisSet ReducedAxes(const KernelFacts& facts) {
  AxisSet out = 0;
  for (size_t a = 0; a < facts.axes.size(); ++a) out |= IsReduce(facts, a) ? AxisBit(a) : 0;
  return out;
}

double Times(const KernelFacts& facts, AxisSet path) {
  double n = 1;
  for (size_t a = 0; a < facts.axes.size(); ++a)
    n *= (path & AxisBit(a)) != 0 ? static_cast<double>(facts.sizes[a]) : 1.0;
  return n;
}

}  // namespace uopd::codegen
