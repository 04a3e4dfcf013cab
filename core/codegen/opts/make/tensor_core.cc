// SPDX-License-Identifier: MIT
#include "core/codegen/opts/make/tensor_core.h"

#include <algorithm>

#include "core/ir/build.h"
#include "core/ir/graph.h"
#include "core/rules/simplify.h"

namespace uopd::codegen {
namespace {

using ir::Dtype;
using ir::Op;
using ir::UOp;

constexpr ir::Int128 kSignBits = 0x80808080;  // of four bytes
constexpr int kMaxWordDepth = 8;              // of the ops that make a word of what is loaded

bool IsByte(Dtype d) { return d == Dtype::I8 || d == Dtype::U8; }

// Adds what is loaded for a word. False: the word has bits besides those that are loaded, or is
// computed by more than `depth` ops on top of each other.
bool AddLoadsOf(UOp word, std::vector<UOp>& loads, int depth) {
  if (word.Is(Op::LOAD)) {
    if (std::ranges::find(loads, word) == loads.end()) loads.push_back(word);
    return true;
  }
  if (depth == 0) return false;
  const auto source = [&](size_t i) { return AddLoadsOf(word.src(i), loads, depth - 1); };
  if (word.Is(Op::OR)) return source(0) && source(1);
  if (word.Is(Op::AND)) return source(word.src(0).Is(Op::CONST) ? 1 : 0);
  return word.Is(ir::OpSet{Op::SHR, Op::SHL}) && source(0);
}

// The word in memory that `value` takes its elements from, in their order, for group = 0, 1, ...;
// null: there is none.
UOp StoredWord(ir::UOpContext& ctx, UOp value, UOp group) {
  const auto from = WordIn(value);
  if (!from) return UOp();
  const int bits = ir::Bits(value.dtype());
  UOp word;
  for (int64_t j = 0; j < group.src(0).const_int(); ++j) {
    const auto at = [&](UOp u) {
      return rules::Simplify(ctx, ir::Substitute(ctx, u, {{group.id(), ctx.Idx(j)}}));
    };
    if (!at(from->shift).IsConstInt(j * bits)) return UOp();
    const UOp mine = at(from->word);
    if (word && mine != word) return UOp();
    word = mine;
  }
  return word;
}

}  // namespace

std::optional<Factors> SmallFactors(UOp reduce) {
  if (!reduce.Is(Op::REDUCE) || reduce.reduce_op() != Op::ADD) return std::nullopt;
  const UOp product = reduce.src(0);
  if (!product.Is(Op::MUL) || !product.src(0).Is(Op::CAST) || !product.src(1).Is(Op::CAST))
    return std::nullopt;
  const Factors out{product.src(0).src(0), product.src(1).src(0)};
  for (const UOp f : {out.a, out.b}) {
    if (f.dtype() == Dtype::TF32) continue;
    if (f.dtype() == Dtype::Index || ir::Bits(f.dtype()) >= 32) return std::nullopt;
  }
  return out;
}

bool NeedsReduction(const ir::UOpContext& ctx, UOp reduce) {
  return std::ranges::any_of(ir::Toposort(ctx, reduce.srcs().first(1)),
                             [](UOp n) { return n.Is(Op::REDUCE); });
}

std::vector<MatrixInstruction> RowInstructions(const Target& target) {
  std::vector<MatrixInstruction> out;
  for (const MatrixInstruction& i : target.matrix_instructions) {
    if (i.m == 1) out.push_back(i);
  }
  for (const MatrixInstruction& tile : target.matrix_instructions) {
    const bool has_row = std::ranges::any_of(out, [&](const MatrixInstruction& i) {
      return i.a == tile.a && i.b == tile.b && i.sum == tile.sum;
    });
    if (has_row) continue;
    MatrixInstruction row = tile;
    row.m = 1, row.k = 32 / ir::Bits(*ir::DtypeByWire(static_cast<uint64_t>(tile.a)));
    out.push_back(row);
  }
  return out;
}

bool Computes(const MatrixInstruction& instruction, const Factors& factors, Dtype sum) {
  if (instruction.sum != NumberOf(sum)) return false;
  const Dtype a = factors.a.dtype(), b = factors.b.dtype();
  if (instruction.a == DtypeNumber::U8 && instruction.b == DtypeNumber::I8)
    return IsByte(a) && IsByte(b);
  return instruction.a == NumberOf(a) && instruction.b == NumberOf(b) && a == b;
}

const MatrixInstruction* TileInstruction(const Target& target, const MatrixInstruction& rows) {
  for (const MatrixInstruction& i : target.matrix_instructions) {
    if (i.m > 1 && i.a == rows.a && i.b == rows.b && i.sum == rows.sum && i.n == rows.n) return &i;
  }
  return nullptr;
}

DotRoles RolesOf(Dtype a, Dtype b, bool a_has_lanes, bool b_has_lanes) {
  DotRoles out;
  if (!IsByte(a)) return out;
  if (a != b) {
    out.swapped = a == Dtype::I8;
    return out;
  }
  // Both signed: the first one is flipped, the sum is one of the second. Both unsigned: the other
  // way round.
  const bool is_signed = a == Dtype::I8;
  const bool sum_of_a = a_has_lanes && !b_has_lanes;
  out.swapped = is_signed == sum_of_a;
  (is_signed ? out.flips_first : out.flips_second) = true;
  return out;
}

std::optional<WordInMemory> WordIn(UOp value) {
  if (value.Is(Op::BITCAST)) value = value.src(0);
  if (!value.Is(Op::CAST) || !ir::IsUnsigned(value.dtype())) return std::nullopt;
  const UOp shifted = value.src(0);
  if (!shifted.Is(Op::SHR) || shifted.dtype() != Dtype::U32) return std::nullopt;
  WordInMemory out{shifted.src(0), {}, shifted.src(1)};
  if (!AddLoadsOf(out.word, out.loads, kMaxWordDepth)) return std::nullopt;
  return out;
}

UOp MakeWord(ir::UOpContext& ctx, UOp value, UOp group, UOp maybe_valid, bool flips) {
  const int bits = ir::Bits(value.dtype());
  if (const UOp word = bits < 32 ? StoredWord(ctx, value, group) : UOp()) {
    const UOp out = maybe_valid ? Where(ctx, maybe_valid, word, ctx.Int(Dtype::U32, 0)) : word;
    return flips ? ir::Alu(ctx, Op::XOR, {out, ctx.Int(Dtype::U32, kSignBits)}) : out;
  }
  if (bits == 32) {
    // One element is the word. `group` may be the constant 0 then, as loops of one iteration are.
    const UOp word =
        ir::Bitcast(ctx, ir::Substitute(ctx, value, {{group.id(), ctx.Idx(0)}}), Dtype::U32);
    return maybe_valid ? Where(ctx, maybe_valid, word, ctx.Int(Dtype::U32, 0)) : word;
  }
  const Dtype same = bits == 16 ? Dtype::U16 : Dtype::U8;
  UOp element = value.dtype() == same ? value : ir::Bitcast(ctx, value, same);
  element = ir::Cast(ctx, element, Dtype::U32);
  if (maybe_valid) element = Where(ctx, maybe_valid, element, ctx.Int(Dtype::U32, 0));
  UOp word;
  for (int64_t j = 0; j < group.src(0).const_int(); ++j) {
    UOp part = ir::Substitute(ctx, element, {{group.id(), ctx.Idx(j)}});
    if (j > 0) part = ir::Alu(ctx, Op::SHL, {part, ctx.Int(Dtype::U32, j * bits)});
    word = word ? ir::Alu(ctx, Op::OR, {word, part}) : part;
  }
  return flips ? ir::Alu(ctx, Op::XOR, {word, ctx.Int(Dtype::U32, kSignBits)}) : word;
}

UOp SumOfWords(ir::UOpContext& ctx, const MatrixInstruction& instruction, UOp first, UOp second,
               const DotRoles& roles, std::span<const UOp> ranges) {
  const Dtype sum = *ir::DtypeByWire(static_cast<uint64_t>(instruction.sum));
  const auto dot = [&](UOp x, UOp y) {
    const UOp product = ctx.Make(
        Op::WMMA, sum, {x, y},
        ctx.Data({static_cast<int64_t>(instruction.a), static_cast<int64_t>(instruction.b)}));
    return ranges.empty() ? product : ir::ReduceRanges(ctx, Op::ADD, product, ranges);
  };
  const UOp all = dot(first, second), signs = ctx.Int(Dtype::U32, kSignBits);
  // Four bytes 0x80 are 128 each in the first operand and -128 each in the second one.
  if (roles.flips_first) return Sub(ctx, all, dot(signs, second));
  if (roles.flips_second) return Sub(ctx, all, dot(first, signs));
  return all;
}

}  // namespace uopd::codegen
