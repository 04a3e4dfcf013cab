// SPDX-License-Identifier: MIT
#include "core/schedule/kept/product.h"

#include <algorithm>

#include "core/ir/build.h"
#include "core/ir/graph.h"

namespace uopd::schedule {
namespace {

using ir::Op;
using ir::UOp;

Operand OperandOf(ir::UOpContext& ctx, Accesses& accesses, const Product& p, UOp value) {
  Operand out;
  out.value = out.base = value;
  const auto* all = accesses.At(p.index, ctx.Bool(true));
  out.access = accesses.OfOperand(ctx.ShapeOf(value), ctx.ShapeOf(p.mul), true, all);
  for (;;) {
    if (out.base.Is(Op::CAST)) {
      out.base = out.base.src(0);
    } else if (out.base.Is(ir::kMovementOps)) {
      out.access = accesses.OfSource(out.base, out.access);
      out.base = out.base.src(0);
    } else {
      break;
    }
  }
  for (UOp i : out.access->index) out.axes |= AxesIn(ctx, p, i);
  out.axes |= AxesIn(ctx, p, out.access->gate);
  return out;
}

int64_t SizeOf(const Product& p, uint64_t axes) {
  int64_t out = 1;
  for (size_t a = 0; a < p.dims.size(); ++a) {
    if ((axes >> a & 1) != 0) out *= p.dims[a];
  }
  return out;
}

}  // namespace

MatrixSizes MatrixSizesOf(const Product& p) {
  return {SizeOf(p, p.a.axes & ~p.b.axes & ~p.reduced),
          SizeOf(p, p.b.axes & ~p.a.axes & ~p.reduced), SizeOf(p, p.reduced)};
}

uint64_t AxesIn(const ir::UOpContext& ctx, const Product& p, UOp expression) {
  uint64_t axes = 0;
  for (UOp u : ir::Toposort(ctx, expression)) {
    if (!u.Is(Op::RANGE)) continue;
    const auto at = std::ranges::find(p.index, u);
    if (at != p.index.end()) axes |= uint64_t{1} << (at - p.index.begin());
  }
  return axes;
}

std::optional<Product> ProductOf(ir::UOpContext& ctx, Accesses& accesses, UOp u) {
  if (!u.Is(Op::REDUCE) || u.reduce_op() != Op::ADD) return std::nullopt;
  Product p;
  p.reduce = u;
  p.mul = u.src(0);
  while (p.mul.Is(Op::CAST)) p.mul = p.mul.src(0);
  if (!p.mul.Is(Op::MUL)) return std::nullopt;
  const auto dims = ir::StaticDims(*ctx.ShapeOf(p.mul));
  if (!dims || dims->size() > 60 || ir::Product(*dims) == 0) return std::nullopt;
  p.dims = *dims;
  for (int64_t a : u.reduce_axes()) p.reduced |= uint64_t{1} << a;
  for (size_t a = 0; a < dims->size(); ++a) {
    const auto type = p.IsReduced(a) ? ir::AxisType::REDUCE : ir::AxisType::LOOP;
    const UOp size = ctx.Idx((*dims)[a]);
    p.index.push_back((*dims)[a] == 1 ? ctx.Idx(0)
                                      : ir::Range(ctx, size, static_cast<int64_t>(a), type));
  }
  p.a = OperandOf(ctx, accesses, p, p.mul.src(0));
  p.b = OperandOf(ctx, accesses, p, p.mul.src(1));
  return p;
}

}  // namespace uopd::schedule
