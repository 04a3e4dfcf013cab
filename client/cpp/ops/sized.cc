// SPDX-License-Identifier: MIT
#include "client/cpp/ops/sized.h"

#include <algorithm>

#include "core/ir/analysis/polynomial.h"
#include "core/ir/analysis/sizes.h"
#include "core/ir/build.h"

namespace uopd::client {

using ir::Op;
using ir::UOp;

namespace {

UOp Canonical(ir::UOpContext& ctx, Op op, UOp a, UOp b) {
  return ir::CanonicalSize(ctx, ir::Alu(ctx, op, {a, b}));
}

// Whether a <= b for all values of the variables; nullopt if that depends on them.
std::optional<bool> NotAbove(ir::UOpContext& ctx, UOp a, UOp b) {
  if (ir::IsNeverNegative(ctx, {{b, 1}, {a, -1}})) return true;
  if (ir::IsNeverNegative(ctx, {{a, 1}, {b, -1}})) return false;
  return std::nullopt;
}

}  // namespace

UOp SumOf(ir::UOpContext& ctx, UOp a, UOp b) {
  if (a.Is(Op::CONST) && b.Is(Op::CONST)) return ctx.Idx(a.const_int() + b.const_int());
  return b.IsConstInt(0) ? a : a.IsConstInt(0) ? b : Canonical(ctx, Op::ADD, a, b);
}

UOp DifferenceOf(ir::UOpContext& ctx, UOp a, UOp b) {
  if (a.Is(Op::CONST) && b.Is(Op::CONST)) return ctx.Idx(a.const_int() - b.const_int());
  return b.IsConstInt(0) ? a : Canonical(ctx, Op::SUB, a, b);
}

UOp ProductOf(ir::UOpContext& ctx, UOp a, UOp b) {
  if (a.Is(Op::CONST) && b.Is(Op::CONST)) return ctx.Idx(a.const_int() * b.const_int());
  return b.IsConstInt(1) ? a : a.IsConstInt(1) ? b : Canonical(ctx, Op::MUL, a, b);
}

UOp QuotientOf(ir::UOpContext& ctx, UOp a, int64_t by) {
  if (by == 1) return a;
  if (a.Is(Op::CONST)) {
    const int64_t n = a.const_int();
    return ctx.Idx(n / by - (n % by < 0 ? 1 : 0));
  }
  if (const UOp exact = ir::MaybeDivided(ctx, a, by)) return ir::CanonicalSize(ctx, exact);
  // (by * x + n) / by is x + n / by.
  if (const auto terms = ir::TermsOf(ctx, a)) {
    for (const ir::SizeTerm& t : *terms) {
      if (!t.atoms.empty()) continue;
      if (const UOp rest = ir::MaybeDivided(ctx, DifferenceOf(ctx, a, ctx.Idx(t.factor)), by))
        return SumOf(ctx, ir::CanonicalSize(ctx, rest), QuotientOf(ctx, ctx.Idx(t.factor), by));
    }
  }
  return ir::Alu(ctx, Op::FLOORDIV, {a, ctx.Idx(by)});
}

UOp MaybeQuotient(ir::UOpContext& ctx, UOp a, UOp by) {
  if (a == by) return ctx.Idx(1);
  const auto terms = ir::TermsOf(ctx, a), divisor = ir::TermsOf(ctx, by);
  if (!terms || !divisor || divisor->size() != 1) return UOp();
  const ir::SizeTerm& d = divisor->front();
  UOp sum = ctx.Idx(0);
  for (const ir::SizeTerm& t : *terms) {
    if (t.factor % d.factor != 0) return UOp();
    std::vector<UOp> rest = t.atoms;
    for (UOp atom : d.atoms) {
      const auto at = std::ranges::find(rest, atom);
      if (at == rest.end()) return UOp();
      rest.erase(at);
    }
    UOp product = ctx.Idx(t.factor / d.factor);
    for (UOp atom : rest) product = ProductOf(ctx, product, atom);
    sum = SumOf(ctx, sum, product);
  }
  return sum;
}

UOp LargerOf(ir::UOpContext& ctx, UOp a, UOp b) {
  if (const auto first = NotAbove(ctx, a, b)) return *first ? b : a;
  return Canonical(ctx, Op::ADD, a, ir::Alu(ctx, Op::MAX, {DifferenceOf(ctx, b, a), ctx.Idx(0)}));
}

UOp SmallerOf(ir::UOpContext& ctx, UOp a, UOp b) {
  if (const auto first = NotAbove(ctx, a, b)) return *first ? a : b;
  return Canonical(ctx, Op::SUB, a, ir::Alu(ctx, Op::MAX, {DifferenceOf(ctx, a, b), ctx.Idx(0)}));
}

bool IsNatural(ir::UOpContext& ctx, UOp size) {
  return size.Is(Op::CONST) ? size.const_int() >= 0 : ir::IsNeverNegative(ctx, {{size, 1}});
}

Tensor SizeTensor(const Tensor& t, UOp size) {
  ir::UOpContext& ctx = Ctx(t);
  const UOp value =
      size.Is(Op::CONST) ? ctx.Int(Dtype::I64, size.const_int()) : ir::Cast(ctx, size, Dtype::I64);
  return Made(t, value, "size", Site::current());
}

Tensor SizeAs(const Tensor& t, UOp size) {
  if (size.Is(Op::CONST)) return ScalarLike(t, t.dtype(), static_cast<double>(size.const_int()));
  return SizeTensor(t, size).Cast(t.dtype());
}

Tensor Tensor::Length(int64_t axis, Site site) const {
  if (!status().ok()) return *this;
  const auto a = Axis(axis, rank());
  if (!a) return Wrong(*this, "Length", site, Cat("axis ", axis, " of shape ", Text(dims())));
  return SizeTensor(*this, ShapeOf(*this)[static_cast<size_t>(*a)]);
}

std::string ShapeText(const Tensor& t) {
  std::string out = "(", values;
  for (UOp d : ShapeOf(t)) {
    Append(out, out.size() > 1 ? ", " : "", ir::SizeText(d));
    if (const std::string now = ir::BoundText(d); values.find(now) == std::string::npos)
      Append(values, values.empty() ? "" : ", ", now);
  }
  return Cat(out, ")", values.empty() ? "" : " where ", values);
}

Tensor IotaOf(const Tensor& t, UOp n, Dtype dtype) {
  ir::UOpContext& ctx = Ctx(t);
  const UOp shape = ir::ShapeArg(ctx, ir::SymbolicDims{n});
  return Made(t, ir::Iota(ctx, dtype, shape, 0), "iota", Site::current());
}

Tensor Boxed(const Tensor& t, Site site, const Tensor* fill) {
  if (!t.is_symbolic()) return t;
  ir::UOpContext& ctx = Ctx(t);
  const UOp begin = ir::ShapeArg(ctx, Dims(t.dims().size(), 0)), box = ir::ShapeArg(ctx, t.dims());
  Tensor padded = Made(t, ir::Pad(ctx, Value(t), begin, box), "box", site);
  if (fill == nullptr || !padded.status().ok()) return padded;
  const UOp all = ir::Expand(ctx, ctx.Bool(true), ir::ShapeArg(ctx, ShapeOf(t)));
  return Where(Made(t, ir::Pad(ctx, all, begin, box), "box", site), padded, *fill);
}

Tensor Cornered(const Tensor& t, const ir::SymbolicDims& sizes, Site site) {
  if (!t.status().ok() || ir::SameShape(sizes, ShapeOf(t))) return t;
  ir::UOpContext& ctx = Ctx(t);
  const UOp begin = ir::ShapeArg(ctx, Dims(sizes.size(), 0));
  return Made(t, ir::Shrink(ctx, Value(t), begin, ir::ShapeArg(ctx, ir::Shape(sizes))), "corner",
              site);
}

Tensor FromStart(const Tensor& index, const Tensor& t, int64_t axis, Site site) {
  const Tensor at = index.Cast(Dtype::I64, site);
  const Tensor n = SizeTensor(t, ShapeOf(t)[static_cast<size_t>(axis)]);
  const Tensor none = SizeTensor(t, Ctx(t).Idx(INT64_MAX / 2));
  const Tensor from = Where(at < 0, at + n, at);
  return Where((from >= 0) & (from < n), from, none);
}

Tensor ExpandTo(const Tensor& t, const ir::SymbolicDims& sizes, std::string_view what, Site site) {
  if (!t.status().ok() || ir::SameShape(sizes, ShapeOf(t))) return t;
  ir::UOpContext& ctx = Ctx(t);
  return Made(t, ir::Expand(ctx, Value(t), ir::ShapeArg(ctx, ir::Shape(sizes))), what, site);
}

int64_t SizeNow(const Tensor& t, size_t axis) {
  return ir::BoundValue(ShapeOf(t)[axis]).value_or(t.dims()[axis]);
}

absl::StatusOr<ir::SymbolicDims> SizesIn(const Tensor& t, std::span<const Size> sizes) {
  ir::SymbolicDims out;
  for (const Size& s : sizes) {
    UOPD_ASSIGN(const UOp n, IndexOf(t, s));
    out.push_back(n);
  }
  return out;
}

namespace {

// The position that an end of a slice means in an axis of n elements.
UOp PositionOf(ir::UOpContext& ctx, UOp at, UOp n) {
  const bool from_end =
      at.Is(Op::CONST) ? at.const_int() < 0 : ir::DimensionBounds(ctx, at).max < 0;
  const UOp counted = from_end ? SumOf(ctx, n, at) : at;
  // What fits for the values of now stays as it is, and has to fit for others: a size that is a
  // number stays one.
  const auto now = ir::BoundValue(counted), whole = ir::BoundValue(n);
  if (now && whole && *now >= 0 && *now <= *whole) return counted;
  return SmallerOf(ctx, LargerOf(ctx, counted, ctx.Idx(0)), n);
}

}  // namespace

Tensor SliceOf(const Tensor& t, int64_t axis, const std::optional<Size>& begin,
               const std::optional<Size>& end, Site site) {
  if (!t.status().ok()) return t;
  const auto a = Axis(axis, t.rank());
  if (!a) return Wrong(t, "Slice", site, Cat("axis ", axis, " of shape ", Text(t.dims())));
  ir::UOpContext& ctx = Ctx(t);
  ir::SymbolicDims sizes = SizesOf(t), starts(sizes.size(), ctx.Idx(0));
  const UOp n = sizes[static_cast<size_t>(*a)];
  UOp from = ctx.Idx(0), to = n;
  for (const auto& [given, place] : {std::pair(&begin, &from), std::pair(&end, &to)}) {
    if (!*given) continue;
    const auto at = IndexOf(t, **given);
    if (!at.ok()) return Poisoned(t.state()->graph, Located("Slice", site, at.status()));
    *place = PositionOf(ctx, *at, n);
  }
  UOp length = DifferenceOf(ctx, to, from);
  if (!IsNatural(ctx, length) && ir::BoundValue(length).value_or(-1) < 0)
    length = LargerOf(ctx, length, ctx.Idx(0));
  starts[static_cast<size_t>(*a)] = from;
  sizes[static_cast<size_t>(*a)] = length;
  if (from.IsConstInt(0) && length == n) return Same(t);
  return Made(t,
              ir::Shrink(ctx, Value(t), ir::ShapeArg(ctx, ir::Shape(starts)),
                         ir::ShapeArg(ctx, ir::Shape(sizes))),
              "Slice", site);
}

}  // namespace uopd::client
