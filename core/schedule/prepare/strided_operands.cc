// SPDX-License-Identifier: MIT
#include "core/schedule/prepare/strided_operands.h"

#include <algorithm>
#include <optional>

#include "core/ir/build.h"
#include "core/ir/shape.h"
#include "core/schedule/kept/product.h"
#include "core/schedule/prepare/rebuild.h"

namespace uopd::schedule {
namespace {

using ir::Op;
using ir::UOp;
using ir::UOpContext;

constexpr int64_t kLeastUses = 32;  // of each element; with fewer the copy does not pay
// What is in memory anyway, in an order that the scheduler cannot choose.
constexpr ir::OpSet kStored = {Op::PARAM, Op::AFTER, Op::COPY, Op::CONTIGUOUS};
constexpr int64_t kLeastElements =
    4096;  // of a copy: a smaller one costs more than the kernel saves

class Copier {
 public:
  Copier(UOpContext& ctx, Accesses& accesses) : ctx_(ctx), accesses_(accesses) {}

  // Whether u is a product with an operand that is read with gaps.
  bool MayCopy(UOp u) {
    const UOp mul = MaybeProductIn(u);
    return mul && (WithGaps(mul.src(0)) || WithGaps(mul.src(1)));
  }

  // The REDUCE u with copied operands, or u.
  UOp Rewrite(UOp u) {
    if (!MayCopy(u)) return u;
    const UOp mul = MaybeProductIn(u), at[] = {WithGaps(mul.src(0)), WithGaps(mul.src(1))};
    const auto product = ProductOf(ctx_, accesses_, u);
    if (!product) return u;
    const int64_t terms = ir::Product(product->dims);
    UOp operands[] = {mul.src(0), mul.src(1)};
    for (int i : {0, 1}) {
      if (!at[i] || terms < kLeastUses * *Elements(at[i])) continue;
      if (IsStrided(i == 0 ? product->a : product->b))
        operands[i] =
            WithBelow(ctx_, operands[i], at[i], ctx_.Make(Op::CONTIGUOUS, at[i].dtype(), {at[i]}));
    }
    const UOp made = ir::Mul(ctx_, operands[0], operands[1]);
    return WithBelow(ctx_, u, mul, made);
  }

 private:
  // The MUL that u sums up; null: u is no sum of products.
  static UOp MaybeProductIn(UOp u) {
    if (!u.Is(Op::REDUCE) || u.reduce_op() != Op::ADD) return {};
    UOp mul = u.src(0);
    while (mul.Is(Op::CAST)) mul = mul.src(0);
    return mul.Is(Op::MUL) ? mul : UOp();
  }

  std::optional<int64_t> Elements(UOp u) {
    const auto dims = ir::StaticDims(*ctx_.ShapeOf(u));
    return dims ? std::optional(ir::Product(*dims)) : std::nullopt;
  }

  // The lowest of the operand's movement ops with the fewest elements, if these are at most half
  // of the elements below; else null.
  UOp WithGaps(UOp operand) {
    UOp fewest;
    int64_t least = INT64_MAX;
    for (UOp u = operand;; u = u.src(0)) {
      const auto n = Elements(u);
      if (!n) return {};
      if (!u.Is(ir::kMovementOps) && !u.Is(Op::CAST)) {
        const bool gaps = least <= *n / 2 && least >= kLeastElements;
        return gaps && u.Is(kStored) ? fewest : UOp();
      }
      if (*n <= least && u.Is(ir::kMovementOps)) least = *n, fewest = u;
    }
  }

  // Whether no two elements are neighbours: every term of their offset is a multiple.
  bool IsStrided(const Operand& operand) {
    if (!operand.access->always()) return false;
    return HasGaps(accesses_.Offset(ctx_.ShapeOf(operand.base), operand.access));
  }
  static bool HasGaps(UOp offset) {
    if (offset.Is(Op::CONST)) return true;
    if (offset.Is(Op::ADD)) return HasGaps(offset.src(0)) && HasGaps(offset.src(1));
    return offset.Is(Op::MUL) && offset.src(1).Is(Op::CONST) && offset.src(1).const_int() > 1;
  }

  UOpContext& ctx_;
  Accesses& accesses_;
};

}  // namespace

UOp CopyStridedOperands(UOpContext& ctx, Accesses& accesses, const std::vector<UOp>& order) {
  Copier copier(ctx, accesses);
  // Most graphs have no such operand.
  if (std::ranges::none_of(order, [&](UOp u) { return copier.MayCopy(u); })) return order.back();
  return RewriteReduces(ctx, order, [&](UOp u, UOp) { return copier.Rewrite(u); });
}

}  // namespace uopd::schedule
