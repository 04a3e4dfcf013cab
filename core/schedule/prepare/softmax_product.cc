// SPDX-License-Identifier: MIT
#include "core/schedule/prepare/softmax_product.h"

#include <algorithm>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "core/ir/graph.h"
#include "core/ir/shape.h"
#include "core/schedule/prepare/axis_map.h"

namespace uopd::schedule {
namespace {

using ir::Op;
using ir::OpSet;
using ir::UOp;
using ir::UOpContext;

constexpr OpSet kFactorViews = {Op::RESHAPE, Op::EXPAND, Op::PERMUTE, Op::CAST};
constexpr int64_t kInstructionTile =
    16;  // of a matrix instruction: depth and columns are multiples of it
constexpr double kRowsOfATile = 8;                       // of each key: rows of a tile
constexpr double kRowsOfABlock = 64;                     // that a block of threads computes
constexpr double kLeastUsed = 0.25;                      // of the processors, with a block each
constexpr int64_t kMostDepth = 128, kMostColumns = 192;  // that fit in registers

// A factor of a product of matrices that matrix instructions take: a small float that is converted.
bool IsSmall(UOp factor, const KernelLimits& limits) {
  while (factor.Is(ir::kMovementOps)) factor = factor.src(0);
  if (!factor.Is(Op::CAST) || factor.dtype() != ir::Dtype::F32) return false;
  const ir::Dtype from = factor.src(0).dtype();
  return ir::IsSmallFloat(from) && limits.factors.Has(ir::NumberOf(from));
}

// The sum of products that u is computed of, element by element; null: there is none, or several.
UOp ProductUnder(const UOpContext& ctx, UOp u) {
  UOp out;
  const auto enter = [](UOp n) { return !n.Is(Op::REDUCE); };
  for (UOp n : ir::Toposort(ctx, std::span<const UOp>(&u, 1), enter)) {
    if (!n.Is(Op::REDUCE)) continue;
    if (out || n.reduce_op() != Op::ADD || n.reduce_axes().size() != 1 || !n.src(0).Is(Op::MUL))
      return UOp();
    out = n;
  }
  return out;
}

// The axis of a REDUCE over one axis; -1: u is no such REDUCE of x.
int64_t AxisOf(Op op, UOp u, UOp x) {
  const bool is = u.Is(Op::REDUCE) && u.reduce_op() == op && u.reduce_axes().size() == 1;
  return is && UnderOps(OpSet{Op::CAST}, u.src(0)) == x ? u.reduce_axes()[0] : -1;
}

}  // namespace

UOp UnderOps(OpSet ops, UOp u) {
  while (u.Is(ops)) u = u.src(0);
  return u;
}

std::optional<Softmax> MaybeSoftmax(UOpContext& ctx, UOp u) {
  constexpr OpSet kSameValue = {Op::CAST, Op::DETACH};
  if (!u.Is(Op::FDIV) || !u.src(0).Is(Op::EXP2)) return std::nullopt;
  const UOp e = u.src(0);
  Softmax out;
  out.axis = AxisOf(Op::ADD, UnderOps(kSameValue, u.src(1)), e);
  UOp off = e.src(0);
  if (off.Is(Op::MUL)) {
    const int at = off.src(1).Is(Op::CONST) ? 1 : 0;
    out.maybe_scale = off.src(static_cast<size_t>(at));
    if (!out.maybe_scale.Is(Op::CONST) || !(out.maybe_scale.const_float() > 0)) return std::nullopt;
    off = off.src(static_cast<size_t>(1 - at));
  }
  if (out.axis < 0 || !off.Is(Op::SUB)) return std::nullopt;
  out.scores = off.src(0);
  if (AxisOf(Op::MAX, UnderOps(kSameValue, off.src(1)), out.scores) != out.axis)
    return std::nullopt;
  const UOp keys = (*ctx.ShapeOf(out.scores))[static_cast<size_t>(out.axis)];
  out.keys = static_cast<int64_t>(ctx.BoundsOf(keys).max);
  out.least_keys = keys.Is(Op::CONST) ? out.keys : static_cast<int64_t>(ctx.BoundsOf(keys).min);
  return out;
}

SoftmaxProducts::SoftmaxProducts(UOpContext& ctx, const std::vector<UOp>& order)
    : ctx_(ctx), uses_(ctx.size(), 0) {
  for (UOp u : order) {
    for (UOp s : u.srcs()) ++uses_[s.id()];
  }
}

std::optional<SoftmaxProduct> SoftmaxProducts::MaybeOf(UOp made, UOp old) {
  if (!made.Is(Op::REDUCE) || made.reduce_op() != Op::ADD || made.reduce_axes().size() != 1)
    return std::nullopt;
  const UOp mul = UnderOps(OpSet{Op::CAST}, made.src(0)),
            old_mul = UnderOps(OpSet{Op::CAST}, old.src(0));
  if (!mul.Is(Op::MUL) || !old_mul.Is(Op::MUL)) return std::nullopt;
  for (size_t side : {0, 1}) {
    if (auto out = OfSide(made, mul, old_mul, side)) return out;
  }
  return std::nullopt;
}

std::optional<SoftmaxProduct> SoftmaxProducts::OfSide(UOp reduce, UOp mul, UOp old_mul,
                                                      size_t side) {
  UOp u = mul.src(side), old = old_mul.src(side);
  const int64_t missing = static_cast<int64_t>(ctx_.ShapeOf(mul)->size() - ctx_.ShapeOf(u)->size());
  AxisMap map;
  for (size_t i = 0; i < ctx_.ShapeOf(u)->size(); ++i)
    map.push_back(static_cast<int>(missing) + static_cast<int>(i));
  while (u.Is(kFactorViews) && u.op() == old.op() && uses_[old.id()] == 1) {
    map = MapBelow(ctx_, u, map);
    u = u.src(0), old = old.src(0);
  }
  if (uses_[old.id()] != 1) return std::nullopt;
  const auto softmax = MaybeSoftmax(ctx_, u);
  if (!softmax || map[static_cast<size_t>(softmax->axis)] != reduce.reduce_axes()[0])
    return std::nullopt;
  return SoftmaxProduct{mul, side, mul.src(side), u, *softmax};
}

double SoftmaxProducts::Elements(UOp x) const {
  double n = 1;
  for (int64_t d : ir::MaxDims(ctx_, *ctx_.ShapeOf(x))) n *= static_cast<double>(d);
  return n;
}

bool SoftmaxProducts::IsOnline(const SoftmaxProduct& p, const KernelLimits& limits) {
  if (!limits.warp_products || limits.units == 0 || p.softmax.least_keys < 1) return false;
  const UOp first = ProductUnder(ctx_, p.softmax.scores);
  if (!first) return false;
  for (UOp mul : {p.mul, first.src(0)}) {
    if (!IsSmall(mul.src(0), limits) || !IsSmall(mul.src(1), limits)) return false;
  }
  const ir::Shape terms = *ctx_.ShapeOf(first.src(0));
  const UOp depth = terms[static_cast<size_t>(first.reduce_axes()[0])];
  const double scores = Elements(p.softmax.scores), keys = static_cast<double>(p.softmax.keys);
  const double columns = Elements(p.mul) / scores;
  const UOp values = UnderOps(ir::kMovementOps | OpSet{Op::CAST}, p.mul.src(1 - p.side));
  const auto fits = [](double n, int64_t most) {
    return n > 0 && n <= static_cast<double>(most) &&
           static_cast<int64_t>(n) % kInstructionTile == 0;
  };
  if (!depth.Is(Op::CONST) || !fits(static_cast<double>(depth.const_int()), kMostDepth))
    return false;
  if (!fits(columns, kMostColumns) || keys <= kInstructionTile) return false;
  if (Elements(p.mul) < kRowsOfATile * Elements(values)) return false;
  return scores / keys / kRowsOfABlock >= kLeastUsed * limits.units;
}

OnlineNodes FindOnlineNodes(UOpContext& ctx, const std::vector<UOp>& order,
                            const Options& options) {
  OnlineNodes out{std::vector<bool>(ctx.size(), false), std::vector<bool>(ctx.size(), false)};
  SoftmaxProducts products(ctx, order);
  for (UOp u : order) {
    if (!u.Is(Op::REDUCE)) continue;
    const auto p = products.MaybeOf(u, u);
    if (!p || !products.IsOnline(*p, options.LimitsFor(u))) continue;
    const UOp first = ProductUnder(ctx, p->softmax.scores);
    // Rows: what depends on scores element by element.
    absl::flat_hash_map<uint32_t, uint32_t> uses;  // of rows, by nodes of the product
    std::vector<UOp> rows, reduces = {u, first};
    const auto enter = [&](UOp n) { return n != first; };
    for (UOp n : ir::Toposort(ctx, std::span<const UOp>(&p->top, 1), enter)) {
      bool row = n == first;
      for (UOp s : n.srcs()) {
        const auto it = uses.find(s.id());
        if (n == first || it == uses.end()) continue;
        ++it->second;
        row = true;
      }
      if (n.Is(Op::REDUCE)) reduces.push_back(n);
      if (!row || (n.Is(Op::REDUCE) && n != first)) continue;
      uses[n.id()] = n == p->top ? 1 : 0;
      rows.push_back(n);
    }
    // A row that something else needs is one in memory.
    if (std::ranges::any_of(rows, [&](UOp n) { return products.UsesOf(n) != uses.at(n.id()); }))
      continue;
    for (UOp n : reduces) out.reduces[n.id()] = true;
    for (UOp n : rows) out.rows[n.id()] = true;
  }
  return out;
}

}  // namespace uopd::schedule
