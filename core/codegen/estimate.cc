// SPDX-License-Identifier: MIT
#include "core/codegen/estimate.h"

#include <algorithm>
#include <map>

#include "core/ir/graph.h"
#include "core/ir/shape.h"

namespace uopd::codegen {

using ir::Op;
using ir::UOp;

Estimate EstimateKernel(ir::UOpContext& ctx, UOp sink) {
  // A node is computed once per combination of values of the ranges that it depends on.
  absl::flat_hash_map<uint32_t, std::vector<UOp>> along;
  std::map<std::pair<uint32_t, bool>, double> traffic;
  auto times = [&](const std::vector<UOp>& ranges) {
    double n = 1;
    for (UOp r : ranges)
      n *= static_cast<double>(std::max<ir::Int128>(ctx.BoundsOf(r.src(0)).max, 0));
    return n;
  };
  Estimate out;
  for (UOp u : ir::Toposort(ctx, sink)) {
    std::vector<UOp>& mine = along[u.id()];
    auto add = [&](UOp r) {
      if (std::find(mine.begin(), mine.end(), r) == mine.end()) mine.push_back(r);
    };
    if (u.Is(Op::RANGE)) add(u);
    for (UOp s : u.srcs()) {
      for (UOp r : along.at(s.id())) add(r);
    }
    if (u.Is(ir::OpSet{Op::REDUCE, Op::SCAN})) out.flops += times(mine);
    if (u.Is(ir::OpSet{Op::REDUCE, Op::STAGE})) {
      for (UOp r : u.closed()) std::erase(mine, r);
    } else if (u.Is(ir::kAluOps) && ir::Info(u.dtype()).kind != ir::kIndexKind &&
               ir::Info(u.src(0).dtype()).kind != ir::kIndexKind && u.dtype() != ir::Dtype::Bool) {
      out.flops += times(mine) * (u.Is(Op::MULACC) ? 2 : 1);
    } else if (u.Is({Op::LOAD, Op::STORE})) {
      const UOp buffer = u.src(0).src(0);
      if (buffer.Is(Op::STAGE)) continue;  // staged values stay in the first-level cache
      traffic[{buffer.id(), u.Is(Op::STORE)}] +=
          times(mine) * static_cast<double>(ir::ByteSize(u.src(0).dtype()));
    }
  }
  for (const auto& [key, bytes] : traffic) {
    const UOp buffer = ctx.node(key.first);
    const double all = static_cast<double>(ir::Product(ir::MaxDims(ctx, *ctx.ShapeOf(buffer)))) *
                       static_cast<double>(ir::ByteSize(buffer.dtype()));
    out.bytes += std::min(bytes, all);
  }
  return out;
}

}  // namespace uopd::codegen
