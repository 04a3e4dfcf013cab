// SPDX-License-Identifier: MIT
#include "client/cpp/graph/safe_sizes.h"

#include <algorithm>

#include "core/ir/analysis/polynomial.h"
#include "core/ir/analysis/sizes.h"
#include "core/ir/build.h"

namespace uopd::client {

using ir::Op;
using ir::UOp;

namespace {

// How far the sum may be below 0.
int64_t Shortage(ir::UOpContext& ctx, UOp sum) {
  const ir::Int128 least = sum.Is(Op::CONST) ? sum.const_int() : ir::DimensionBounds(ctx, sum).min;
  return static_cast<int64_t>(std::max<ir::Int128>(0, -least));
}

UOp Plus(ir::UOpContext& ctx, UOp a, int64_t n) {
  if (n == 0) return a;
  return a.Is(Op::CONST) ? ctx.Idx(a.const_int() + n) : ir::Add(ctx, a, ctx.Idx(n));
}

}  // namespace

bool SafeSizes::IsNatural(UOp size) {
  if (size.Is(Op::CONST)) return true;  // what the client has verified
  return ir::DimensionBounds(ctx_, size).min >= 0 || ir::IsNeverNegative(ctx_, {{size, 1}});
}

UOp SafeSizes::AtLeast(UOp size, UOp least) { return ir::Alu(ctx_, Op::MAX, {size, least}); }

void SafeSizes::Note(UOp start, UOp size, UOp whole) {
  for (const SizeCondition& c : conditions_)
    if (c.start == start && c.size == size && c.whole == whole) return;
  conditions_.push_back({start, size, whole});
}

UOp SafeSizes::Shape(UOp shape) {
  if (std::ranges::all_of(shape.srcs(), [&](UOp d) { return IsNatural(d); })) return shape;
  ir::SymbolicDims sizes(shape.srcs().begin(), shape.srcs().end());
  for (UOp& d : sizes) {
    if (IsNatural(d)) continue;
    NoteSize(d);
    d = AtLeast(d, ctx_.Idx(0));
  }
  return ir::ShapeArg(ctx_, ir::Shape(sizes));
}

UOp SafeSizes::Shrink(UOp x, UOp starts, UOp shape) {
  const ir::Shape whole = *ctx_.ShapeOf(x);
  ir::SymbolicDims before, padded(whole.begin(), whole.end()),
      at(starts.srcs().begin(), starts.srcs().end());
  bool fits = true;
  for (size_t i = 0; i < at.size(); ++i) {
    const UOp start = at[i], size = shape.src(i);
    before.push_back(ctx_.Idx(0));
    if (IsNatural(start) && ir::BoxFits(ctx_, start, size, whole[i])) continue;
    fits = false;
    Note(start, size, whole[i]);
    const int64_t low = Shortage(ctx_, start);
    const int64_t high = Shortage(ctx_, ir::Sub(ctx_, ir::Sub(ctx_, whole[i], start), size));
    before[i] = ctx_.Idx(low);
    padded[i] = Plus(ctx_, whole[i], low + high);
    at[i] = Plus(ctx_, start, low);
  }
  if (fits) return ir::Shrink(ctx_, x, starts, shape);
  const UOp larger = ir::Pad(ctx_, x, ir::ShapeArg(ctx_, ir::Shape(before)),
                             ir::ShapeArg(ctx_, ir::Shape(padded)));
  return ir::Shrink(ctx_, larger, ir::ShapeArg(ctx_, ir::Shape(at)), shape);
}

UOp SafeSizes::Pad(UOp x, UOp before, UOp shape) {
  const ir::Shape inner = *ctx_.ShapeOf(x);
  ir::SymbolicDims at(before.srcs().begin(), before.srcs().end()),
      padded(shape.srcs().begin(), shape.srcs().end()), cut;
  bool fits = true;
  for (size_t i = 0; i < at.size(); ++i) {
    const UOp start = at[i], whole = padded[i];
    cut.push_back(ctx_.Idx(0));
    if (IsNatural(start) && ir::BoxFits(ctx_, start, inner[i], whole)) continue;
    fits = false;
    Note(start, inner[i], whole);
    const int64_t low = Shortage(ctx_, start);
    const int64_t high = Shortage(ctx_, ir::Sub(ctx_, ir::Sub(ctx_, whole, start), inner[i]));
    cut[i] = ctx_.Idx(low);
    padded[i] = Plus(ctx_, whole, low + high);
    at[i] = Plus(ctx_, start, low);
  }
  if (fits) return ir::Pad(ctx_, x, before, shape);
  const UOp larger =
      ir::Pad(ctx_, x, ir::ShapeArg(ctx_, ir::Shape(at)), ir::ShapeArg(ctx_, ir::Shape(padded)));
  return ir::Shrink(ctx_, larger, ir::ShapeArg(ctx_, ir::Shape(cut)), shape);
}

bool SafeSizes::Fits(UOp shrink) {
  const ir::Shape whole = *ctx_.ShapeOf(shrink.src(0));
  for (size_t i = 0; i < whole.size(); ++i) {
    const UOp start = shrink.src(1).src(i), size = shrink.src(2).src(i);
    if (!IsNatural(start) || !IsNatural(size) || !ir::BoxFits(ctx_, start, size, whole[i]))
      return false;
  }
  return true;
}

bool SafeSizes::CanMove(UOp x, UOp shape) {
  const ir::Shape whole = *ctx_.ShapeOf(x);
  for (size_t i = 0; i < whole.size(); ++i) {
    if (!IsNatural(shape.src(i)) || !ir::BoxFits(ctx_, ctx_.Idx(0), shape.src(i), whole[i]))
      return false;
  }
  return true;
}

UOp SafeSizes::Moved(UOp x, UOp starts, UOp shape) {
  const ir::Shape whole = *ctx_.ShapeOf(x);
  ir::SymbolicDims at(starts.srcs().begin(), starts.srcs().end());
  for (size_t i = 0; i < at.size(); ++i) {
    const UOp start = at[i], size = shape.src(i);
    if (IsNatural(start) && ir::BoxFits(ctx_, start, size, whole[i])) continue;
    Note(start, size, whole[i]);
    const UOp from = IsNatural(start) ? start : AtLeast(start, ctx_.Idx(0));
    // The smaller one of `from` and `last`, as last - max(last - from, 0).
    const UOp last = ir::Sub(ctx_, whole[i], size);
    at[i] = ir::Sub(ctx_, last, AtLeast(ir::Sub(ctx_, last, from), ctx_.Idx(0)));
  }
  return ir::Shrink(ctx_, x, ir::ShapeArg(ctx_, ir::Shape(at)), shape);
}

}  // namespace uopd::client
