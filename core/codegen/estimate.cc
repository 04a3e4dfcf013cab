// SPDX-License-Identifier: MIT
#include "core/codegen/estimate.h"

#include <algorithm>
#include <map>
#include <optional>

#include "core/ir/graph.h"
#include "core/ir/shape.h"

namespace uopd::codegen {

using ir::Op;
using ir::UOp;

namespace {

// The small float whose products a REDUCE adds up in f32, as matrix instructions do. Nullopt: it
// adds up something else.
std::optional<ir::Dtype> DtypeOfProducts(UOp reduce) {
  const UOp product = reduce.src(0);
  if (reduce.dtype() != ir::Dtype::F32 || !product.Is(Op::MUL)) return std::nullopt;
  const UOp a = product.src(0), b = product.src(1);
  if (!a.Is(Op::CAST) || !b.Is(Op::CAST)) return std::nullopt;
  const ir::Dtype from = a.src(0).dtype();
  if (from != b.src(0).dtype() || !ir::IsFloat(from) || ir::ByteSize(from) >= 4) {
    return std::nullopt;
  }
  return from;
}

}  // namespace

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
  std::map<ir::Dtype, double> by_dtype;
  const auto count = [&](ir::Dtype dtype, double operations) {
    out.flops += operations;
    by_dtype[dtype] += operations;
  };
  for (UOp u : ir::Toposort(ctx, sink)) {
    std::vector<UOp>& mine = along[u.id()];
    auto add = [&](UOp r) {
      if (std::find(mine.begin(), mine.end(), r) == mine.end()) mine.push_back(r);
    };
    if (u.Is(Op::RANGE)) add(u);
    for (UOp s : u.srcs()) {
      for (UOp r : along.at(s.id())) add(r);
    }
    if (u.Is(Op::SCAN)) count(u.dtype(), times(mine));
    if (u.Is(Op::REDUCE)) {
      const auto small = DtypeOfProducts(u);
      count(small.value_or(u.dtype()), times(mine));
      // The products were counted as f32 when their node was visited.
      if (small.has_value()) {
        const double products = times(along.at(u.src(0).id()));
        by_dtype[ir::Dtype::F32] -= products;
        by_dtype[*small] += products;
      }
    }
    if (u.Is(ir::OpSet{Op::REDUCE, Op::STAGE})) {
      for (UOp r : u.closed()) std::erase(mine, r);
    } else if (u.Is(ir::kAluOps) && ir::Info(u.dtype()).kind != ir::kIndexKind &&
               ir::Info(u.src(0).dtype()).kind != ir::kIndexKind && u.dtype() != ir::Dtype::Bool) {
      count(u.dtype(), times(mine) * (u.Is(Op::MULACC) ? 2 : 1));
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
  double most = 0;
  for (const auto& [dtype, operations] : by_dtype) {
    if (operations <= most) continue;
    most = operations;
    out.dtype = ir::NumberOf(dtype);
  }
  return out;
}

}  // namespace uopd::codegen
