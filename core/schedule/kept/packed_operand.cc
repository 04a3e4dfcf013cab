// SPDX-License-Identifier: MIT
#include "core/schedule/kept/packed_operand.h"

#include <algorithm>

#include "core/ir/build.h"

namespace uopd::schedule {
namespace {

using ir::Dims;
using ir::Dtype;
using ir::Op;
using ir::UOp;

constexpr int64_t kLeastRows = 4;   // fewer rows read each element too rarely
constexpr int64_t kLeastTerms = 4;  // of a sum
// The packed form may have this many times the bytes that the operand is computed from.
constexpr double kMostRepeated = 1.3;

// Elements of a block: the vectors of a usual register tile.
int64_t BlockOf(int64_t size, int64_t lanes, const Target& target) {
  for (int64_t vectors = target.vector_registers >= 32 ? 4 : 2; vectors > 0; --vectors) {
    if (size % (vectors * lanes) == 0) return vectors * lanes;
  }
  return size;
}

// The dtype of the base if the operand only widens it, so that a CAST after loading gives the
// operand.
Dtype KeptDtype(UOp value) {
  Dtype out = value.dtype();
  for (UOp u = value; u.Is(ir::kMovementOps) || u.Is(Op::CAST); u = u.src(0)) {
    if (!u.Is(Op::CAST)) continue;
    const Dtype from = u.src(0).dtype();
    const bool exact = u.dtype() == Dtype::F32 && ir::IsFloat(from) && ir::Bits(from) < 32;
    if (!exact &&
        !(ir::IsInt(from) && ir::IsInt(u.dtype()) && ir::Bits(from) < ir::Bits(u.dtype())))
      break;
    out = from;
  }
  return out;
}

Dims InverseOf(const std::vector<int64_t>& order) {
  Dims out(order.size());
  for (size_t i = 0; i < order.size(); ++i)
    out[static_cast<size_t>(order[i])] = static_cast<int64_t>(i);
  return out;
}

}  // namespace

Dims PackedOperand::Split() const {
  Dims out = used;
  out[vector] = used[vector] / block;
  out.insert(out.begin() + static_cast<ptrdiff_t>(vector) + 1, block);
  return out;
}

std::optional<PackedOperand> PackedOf(ir::UOpContext& ctx, const Product& p, const Operand& packed,
                                      const Operand& other, double leaf_bytes,
                                      const Target& target) {
  PackedOperand out;
  out.dtype = KeptDtype(packed.value);
  const int64_t lanes = target.vector_bytes / std::max<int64_t>(4, ir::ByteSize(p.mul.dtype()));
  int64_t rows = 1, terms = 1;
  const size_t none = p.dims.size();
  size_t vector = none, both = none;  // `both`: an axis that both operands have
  for (size_t a = 0; a < p.dims.size(); ++a) {
    const bool mine = (packed.axes >> a & 1) != 0, theirs = (other.axes >> a & 1) != 0;
    if (p.IsReduced(a)) {
      if (mine) terms *= p.dims[a];
    } else if (!mine && theirs) {
      rows *= p.dims[a];
    } else if (mine && p.dims[a] >= lanes) {
      (theirs ? both : vector) = a;
    }
  }
  // Reduced axes along which windows slide stand outside of the others: their gates and offsets are
  // then computed outside of the inner loop.
  uint64_t slides = 0;
  for (UOp i : other.access->index) {
    const uint64_t axes = AxesIn(ctx, p, i);
    if ((axes & ~p.reduced) != 0) slides |= axes & p.reduced;
  }
  // A depthwise convolution sums up windows only: its lanes are channels, which both operands have.
  const bool depthwise = vector == none && (packed.axes & p.reduced & ~slides) == 0;
  if (depthwise) vector = both;
  if (vector == none || rows < kLeastRows || terms < kLeastTerms) return std::nullopt;
  std::vector<std::pair<int, size_t>> outer;  // rank, index into `used`
  for (size_t a = 0; a < p.dims.size(); ++a) {
    if ((packed.axes >> a & 1) == 0) continue;
    if (a == vector) out.vector = out.axes.size();
    const int rank = !p.IsReduced(a) ? 0 : (slides >> a & 1) != 0 ? 1 : 2;
    outer.emplace_back(rank, out.axes.size());
    out.axes.push_back(a);
    out.used.push_back(p.dims[a]);
  }
  if (static_cast<double>(out.Bytes()) > kMostRepeated * leaf_bytes) return std::nullopt;
  out.block = depthwise ? p.dims[vector] : BlockOf(p.dims[vector], lanes, target);
  std::sort(outer.begin(), outer.end());
  for (const auto& [rank, i] : outer)
    out.order.push_back(static_cast<int64_t>(i > out.vector ? i + 1 : i));
  out.order.push_back(static_cast<int64_t>(out.vector) + 1);
  return out;
}

UOp Pack(ir::UOpContext& ctx, const PackedOperand& form, const Product& p, UOp operand) {
  // One element along the axes that the operand only repeats.
  const Dims shape = *ir::StaticDims(*ctx.ShapeOf(operand));
  const size_t missing = p.dims.size() - shape.size();  // operands broadcast right-aligned
  Dims one(shape.size(), 1);
  for (size_t a : form.axes) one[a - missing] = shape[a - missing];
  UOp x =
      ir::Shrink(ctx, operand, ir::ShapeArg(ctx, Dims(shape.size(), 0)), ir::ShapeArg(ctx, one));
  x = ir::Reshape(ctx, x, form.Split());
  return ir::Cast(ctx, ir::Permute(ctx, x, form.order), form.dtype);
}

UOp Unpack(ir::UOpContext& ctx, const PackedOperand& form, const Product& p, UOp operand,
           UOp packed) {
  const Dims shape = *ir::StaticDims(*ctx.ShapeOf(operand));
  const size_t missing = p.dims.size() - shape.size();
  UOp x = ir::Permute(ctx, packed, InverseOf(form.order));
  Dims one(shape.size(), 1);
  for (size_t a : form.axes) one[a - missing] = shape[a - missing];
  x = ir::Reshape(ctx, x, one);
  return ir::Cast(ctx, ir::Expand(ctx, x, shape), operand.dtype());
}

}  // namespace uopd::schedule
