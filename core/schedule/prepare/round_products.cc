// SPDX-License-Identifier: MIT
#include "core/schedule/prepare/round_products.h"

#include <algorithm>
#include <optional>

#include "core/ir/build.h"
#include "core/ir/shape.h"
#include "core/schedule/prepare/axis_map.h"
#include "core/schedule/prepare/rebuild.h"

namespace uopd::schedule {
namespace {

using ir::Dtype;
using ir::Op;
using ir::OpSet;
using ir::Shape;
using ir::UOp;
using ir::UOpContext;

// With less reuse, writing a rounded operand to memory costs more than rounding it at each use.
constexpr double kReuse = 64;

class Rounder {
 public:
  Rounder(UOpContext& ctx, const Options& options) : ctx_(ctx), options_(options) {}

  // The REDUCE u with rounded operands, or u.
  UOp Rewrite(UOp u) {
    const UOp product = u.src(0);
    if (u.reduce_op() != Op::ADD || u.dtype() != Dtype::F32 || !product.Is(Op::MUL)) return u;
    const auto dtype = DtypeFor(product);
    if (!dtype.has_value()) return u;
    std::vector<bool> kept(ctx_.ShapeOf(product)->size(), true);
    for (int64_t a : u.reduce_axes()) kept[static_cast<size_t>(a)] = false;
    const UOp a = product.src(0), b = product.src(1);
    if (IsUniform(a) || IsUniform(b) || IsMask(a) || IsMask(b)) return u;
    if (*dtype == Dtype::TF32 && IsWidened(a) && IsWidened(b)) return u;
    if (!Repeats(a, product, kept) && !Repeats(b, product, kept)) return u;
    const UOp rounded = ir::Mul(ctx_, Rounded(a, product, *dtype), Rounded(b, product, *dtype));
    return ir::ReduceAxes(ctx_, Op::ADD, rounded, u.reduce_axes());
  }

 private:
  // Nullopt: the device has no instruction for the dtypes that the client allows.
  std::optional<Dtype> DtypeFor(UOp product) const {
    for (const DtypeNumber number : options_.LimitsFor(product).product_dtypes) {
      if (options_.allowed_products.Has(number)) return ir::DtypeByWire(uint64_t(number));
    }
    return std::nullopt;
  }

  static UOp Below(UOp operand) {
    while (operand.Is(ir::kMovementOps)) operand = operand.src(0);
    return operand;
  }
  static bool IsUniform(UOp operand) {
    return Below(operand).Is(OpSet{Op::CONST, Op::DEFINE_VAR, Op::BIND});
  }
  // True for values of bf16, f16 or fp8 that are converted: tf32 holds them all, and instructions
  // for them are faster.
  static bool IsWidened(UOp operand) {
    const UOp base = Below(operand);
    return base.Is(Op::CAST) && ir::IsSmallFloat(base.src(0).dtype());
  }
  // True for a condition as a number: a sum of products with it selects values.
  static bool IsMask(UOp operand) {
    const UOp base = Below(operand);
    if (base.Is(Op::CAST)) return base.src(0).dtype() == Dtype::Bool;
    return base.Is(Op::WHERE) && IsUniform(base.src(1)) && IsUniform(base.src(2));
  }

  // Whether the operand is the same along some axis of the result.
  bool Repeats(UOp operand, UOp product, const std::vector<bool>& kept) {
    const Shape whole = *ctx_.ShapeOf(product);
    const auto counts = [&](int axis) {
      return axis >= 0 && kept[static_cast<size_t>(axis)] &&
             !whole[static_cast<size_t>(axis)].IsConstInt(1);
    };
    // Shapes are aligned at their last axes.
    const size_t rank = ctx_.ShapeOf(operand)->size(), missing = whole.size() - rank;
    for (size_t i = 0; i < missing; ++i) {
      if (counts(static_cast<int>(i))) return true;
    }
    AxisMap map(rank);
    for (size_t i = 0; i < rank; ++i) {
      map[i] = static_cast<int>(i + missing);
      if ((*ctx_.ShapeOf(operand))[i].IsConstInt(1) && counts(map[i])) return true;
    }
    for (UOp u = operand; u.Is(ir::kMovementOps); u = u.src(0)) {
      const Shape out = *ctx_.ShapeOf(u), in = *ctx_.ShapeOf(u.src(0));
      if (u.Is(Op::EXPAND)) {
        for (size_t i = 0; i < out.size(); ++i) {
          const bool here = i + in.size() >= out.size();
          const bool one = here && in[i + in.size() - out.size()].IsConstInt(1);
          if ((!here || one) && !out[i].IsConstInt(1) && counts(map[i])) return true;
        }
      }
      map = MapBelow(ctx_, u, map);
    }
    return false;
  }

  double Elements(UOp u) {
    double n = 1;
    for (int64_t d : ir::MaxDims(ctx_, *ctx_.ShapeOf(u))) n *= static_cast<double>(d);
    return n;
  }

  // The operand, rounded, in f32.
  UOp Rounded(UOp operand, UOp product, Dtype dtype) {
    const UOp base = Below(operand);
    if (base.Is(Op::CAST) && base.src(0).dtype() == dtype) return operand;  // needs no rounding
    const bool often = Elements(product) >= kReuse * Elements(base);
    const UOp narrow = often ? WithBelow(ctx_, operand, base, ir::Cast(ctx_, base, dtype))
                             : ir::Cast(ctx_, operand, dtype);
    return ir::Cast(ctx_, narrow, Dtype::F32);
  }

  UOpContext& ctx_;
  const Options& options_;
};

}  // namespace

UOp RoundProducts(UOpContext& ctx, const std::vector<UOp>& order, const Options& options) {
  if (options.allowed_products == DtypeNumberSet()) return order.back();
  Rounder rounder(ctx, options);
  return RewriteReduces(ctx, order, [&](UOp u, UOp) { return rounder.Rewrite(u); });
}

}  // namespace uopd::schedule
