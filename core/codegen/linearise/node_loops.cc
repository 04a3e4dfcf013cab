// SPDX-License-Identifier: MIT
#include "core/codegen/linearise/node_loops.h"

#include <algorithm>

#include "core/base/text.h"
#include "core/ir/graph.h"

namespace uopd::codegen {
namespace {

using ir::AxisType;
using ir::Op;
using ir::UOp;

constexpr size_t kMaxLoops = 126;  // more than the scheduler gives a kernel

}  // namespace

absl::StatusOr<NodeLoops> NodeLoops::Of(const ir::UOpContext& ctx, UOp sink) {
  NodeLoops out;
  const auto order = ir::Toposort(ctx, sink);
  for (UOp u : order) {
    if (!u.Is(Op::RANGE)) continue;
    if (out.bit_.size() == kMaxLoops)
      return absl::UnimplementedError(Cat("kernel has over ", kMaxLoops, " loops"));
    const LoopSet bit = u.axis_type() == AxisType::THREAD ? 0 : LoopSet{1} << out.bit_.size();
    out.bit_[u.id()] = bit;
  }
  for (UOp u : order) {
    LoopSet loops = u.Is(Op::RANGE) ? out.bit_[u.id()] : 0;
    int level = 0;
    for (UOp s : u.body()) loops |= out.along_[s.id()];
    // The size of a loop may depend on loops around it where what is computed in it does not.
    for (UOp r : u.closed()) loops |= out.along_[r.id()];
    for (UOp s : u.srcs()) level = std::max(level, out.level_[s.id()]);
    loops &= ~out.Bits(u.closed());
    out.along_[u.id()] = loops;
    out.level_[u.id()] = level + (HasLoops(u) ? 1 : 0);
  }
  return out;
}

LoopSet NodeLoops::Bits(std::span<const UOp> ranges) const {
  LoopSet out = 0;
  for (UOp r : ranges) out |= bit_.at(r.id());
  return out;
}

std::span<const UOp> LoopsOf(UOp u) {
  if (u.Is(Op::REDUCE)) return u.closed();
  return u.src(1).Is(Op::END) ? u.src(1).closed() : std::span<const UOp>();
}

}  // namespace uopd::codegen
