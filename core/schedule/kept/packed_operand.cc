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

constexpr int64_t kLeastRows = 4;   // fewer rows read each element too rarely, unless it is rounded
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

// True if `to` has every value of `from`.
bool HoldsAll(Dtype to, Dtype from) {
  if (ir::IsSmallFloat(from)) return to == Dtype::F32;
  if (!ir::IsInt(from) || !ir::IsInt(to) || ir::Bits(from) >= ir::Bits(to)) return false;
  return ir::IsSigned(to) || !ir::IsSigned(from);
}

// The narrowest dtype on the way from the operand to its base from which one CAST gives the
// operand. A chain of CASTs is one CAST only if all CASTs but the last keep every value: I8 -> U16
// -> I32 widens -1 to 65535, and I8 -> I32 to -1.
Dtype KeptDtype(UOp value) {
  Dtype out = value.dtype();
  for (UOp u = value; u.Is(ir::kMovementOps) || u.Is(Op::CAST); u = u.src(0)) {
    if (!u.Is(Op::CAST)) continue;
    const Dtype from = u.src(0).dtype();
    const bool only =
        out == value.dtype() && ir::IsInt(from) && ir::IsInt(out) && ir::Bits(from) < ir::Bits(out);
    if (!only && !HoldsAll(u.dtype(), from)) break;
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

// The elements that a matrix instruction of the target takes together, if they fill 32 bits; else
// 1. Tiles (m > 1) without an instruction of one row need `rows` and `terms` that fill them.
int64_t WordOf(Dtype dtype, Dtype sum, int64_t rows, int64_t terms, const Target& target) {
  for (const MatrixInstruction& i : target.matrix_instructions) {
    const bool bytes = i.a == DtypeNumber::U8 && (dtype == Dtype::I8 || dtype == Dtype::U8);
    if (!bytes && (i.a != NumberOf(dtype) || i.b != i.a)) continue;
    if (i.sum != NumberOf(sum)) continue;
    if (i.m == 1 && i.k > 1 && i.k * ir::Bits(dtype) == 32) return i.k;
    if (i.m > 1 && rows >= i.m && terms % i.k == 0) return 32 / ir::Bits(dtype);
  }
  return 1;
}

Dtype BitsOf(Dtype dtype) { return ir::Bits(dtype) == 16 ? Dtype::U16 : Dtype::U8; }

// Words of the elements along the last axis.
UOp ToWords(ir::UOpContext& ctx, UOp x) {
  Dims dims = *ir::StaticDims(*ctx.ShapeOf(x));
  const int64_t bits = ir::Bits(x.dtype()), n = dims.back();
  dims.back() = 1;
  const Dims words(dims.begin(), dims.end() - 1);
  UOp out;
  for (int64_t j = 0; j < n; ++j) {
    Dims start(dims.size(), 0);
    start.back() = j;
    UOp part = ir::Shrink(ctx, x, ir::ShapeArg(ctx, start), ir::ShapeArg(ctx, dims));
    part = ir::Reshape(ctx, part, words);
    if (part.dtype() != BitsOf(x.dtype())) part = ir::Bitcast(ctx, part, BitsOf(x.dtype()));
    part = ir::Cast(ctx, part, Dtype::U32);
    if (j > 0) part = ir::Alu(ctx, Op::SHL, {part, ctx.Int(Dtype::U32, j * bits)});
    out = out ? ir::Alu(ctx, Op::OR, {out, part}) : part;
  }
  return out;
}
// The inverse: `n` elements of the dtype along a new last axis.
UOp FromWords(ir::UOpContext& ctx, UOp words, Dtype dtype, int64_t n) {
  Dims dims = *ir::StaticDims(*ctx.ShapeOf(words));
  dims.push_back(1);
  UOp x = ir::Reshape(ctx, words, dims);
  dims.back() = n;
  x = ir::Expand(ctx, x, dims);
  const int64_t last = static_cast<int64_t>(dims.size()) - 1;
  const UOp at = ir::Iota(ctx, Dtype::U32, ir::ShapeArg(ctx, dims), last);
  const UOp shift = ir::Mul(ctx, at, ctx.Int(Dtype::U32, ir::Bits(dtype)));
  x = ir::Cast(ctx, ir::Alu(ctx, Op::SHR, {x, shift}), BitsOf(dtype));
  return x.dtype() == dtype ? x : ir::Bitcast(ctx, x, dtype);
}

}  // namespace

Dims PackedOperand::Split() const {
  Dims out;
  for (size_t i = 0; i < used.size(); ++i) {
    const int64_t inner = i == vector ? block : i == paired ? word : 1;
    out.push_back(used[i] / inner);
    if (i == vector || (i == paired && word > 1)) out.push_back(inner);
  }
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
  // Reduced axes along which windows slide come before the others: a word has its elements along
  // one of the others.
  uint64_t slides = 0;
  for (UOp i : other.access->index) {
    const uint64_t axes = AxesIn(ctx, p, i);
    if ((axes & ~p.reduced) != 0) slides |= axes & p.reduced;
  }
  // A depthwise convolution sums up windows only: its lanes are channels, which both operands have.
  const bool depthwise = vector == none && (packed.axes & p.reduced & ~slides) == 0;
  if (depthwise) vector = both;
  // Few rows: packing pays only if it saves rounding the operand in every run.
  const bool narrows = ir::Bits(out.dtype) < ir::Bits(packed.base.dtype());
  if (vector == none || terms < kLeastTerms || (rows < kLeastRows && !narrows)) return std::nullopt;
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
  const auto [innermost, last] = outer.back();
  const int64_t word = WordOf(out.dtype, p.mul.dtype(), rows, out.used[last], target);
  if (innermost == 2 && out.used[last] % word == 0) {
    out.word = word;
    out.paired = last;
  }
  // The position of an axis of `used` in Split().
  const auto position = [&](size_t i) {
    const bool after_pairs = out.word > 1 && i > out.paired;
    return static_cast<int64_t>(i + (i > out.vector ? 1 : 0) + (after_pairs ? 1 : 0));
  };
  for (const auto& [rank, i] : outer) out.order.push_back(position(i));
  out.order.push_back(position(out.vector) + 1);
  if (out.word > 1) out.order.push_back(position(out.paired) + 1);
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
  x = ir::Cast(ctx, ir::Permute(ctx, x, form.order), form.dtype);
  return form.word > 1 ? ToWords(ctx, x) : x;
}

UOp Unpack(ir::UOpContext& ctx, const PackedOperand& form, const Product& p, UOp operand,
           UOp packed) {
  const Dims shape = *ir::StaticDims(*ctx.ShapeOf(operand));
  const size_t missing = p.dims.size() - shape.size();
  UOp x = form.word > 1 ? FromWords(ctx, packed, form.dtype, form.word) : packed;
  x = ir::Permute(ctx, x, InverseOf(form.order));
  Dims one(shape.size(), 1);
  for (size_t a : form.axes) one[a - missing] = shape[a - missing];
  x = ir::Reshape(ctx, x, one);
  return ir::Cast(ctx, ir::Expand(ctx, x, shape), operand.dtype());
}

}  // namespace uopd::schedule
