// SPDX-License-Identifier: MIT
#include "core/codegen/attention/warp_rows/row_mmas.h"

#include <algorithm>
#include <array>
#include <vector>

#include "core/codegen/gpu/product/fragment_index.h"
#include "core/codegen/gpu/product/staged_operand.h"
#include "core/codegen/opts/make/tensor_core.h"
#include "core/codegen/passes/rebuild.h"
#include "core/ir/build.h"
#include "core/ir/mma.h"
#include "core/rules/index_expr.h"

namespace uopd::codegen {

using ir::AxisType;
using ir::Dtype;
using ir::Op;
using ir::UOp;
using rules::IndexSum;

namespace {

// `value` with ranges replaced where it depends on them, which is not inside of the nodes that
// close them.
UOp ReplaceOpen(ir::UOpContext& ctx, UOp value, const ir::Substitution& map) {
  const auto closes = [&](UOp u) {
    return std::ranges::any_of(u.closed(), [&](UOp r) { return map.contains(r.id()); });
  };
  absl::flat_hash_map<uint32_t, UOp> done;
  std::vector<UOp> srcs;
  const auto enter = [&](UOp u) { return !closes(u) && !map.contains(u.id()); };
  for (UOp u : ir::Toposort(ctx, std::span<const UOp>(&value, 1), enter)) {
    UOp& out = done[u.id()];
    if (const auto it = map.find(u.id()); it != map.end()) {
      out = it->second;
    } else if (closes(u)) {
      ir::Substitution others = map;
      for (UOp r : u.closed()) others.erase(r.id());
      out = others.empty() ? u : ReplaceOpen(ctx, u, others);
    } else {
      srcs.clear();
      for (UOp s : u.srcs()) srcs.push_back(done.at(s.id()));
      out = rules::WithIndexSources(ctx, u, srcs);
    }
  }
  return done.at(value.id());
}

}  // namespace

UOp RowMmas::Mma(UOp of_rows, UOp of_others, UOp step, UOp other_result) {
  const MatrixInstruction& i = f_.instruction;
  const UOp a = f_.swapped ? of_others : of_rows, b = f_.swapped ? of_rows : of_others;
  const ir::Mma mma{i.m,
                    i.n,
                    i.k,
                    static_cast<int64_t>(i.a),
                    static_cast<int64_t>(i.b),
                    f_.sum().lanes(),
                    (*ctx_.ShapeOf(a))[0].const_int(),
                    (*ctx_.ShapeOf(b))[0].const_int()};
  UOp sum =
      ctx_.Make(Op::MMA, *ir::DtypeByWire(static_cast<uint64_t>(i.sum)), {a, b}, mma.ToArg(ctx_));
  if (step.Is(Op::RANGE))
    sum = ir::ReduceRanges(ctx_, Op::ADD, sum, std::span<const UOp>(&step, 1));
  // The number of the result in the lane, a constant once the loops over results are copies.
  std::vector<Fragment::Bit> own, other;
  for (size_t bit = 0; bit < f_.sum().element.size(); ++bit) {
    const bool mine = f_.sum().element[bit].axis == f_.own();
    (mine ? own : other).push_back({mine ? 'q' : 'e', static_cast<int>(bit)});
  }
  const UOp number = IndexSum(ctx_, FragmentDigits(ctx_, own, 'q', p_.own_result),
                              FragmentDigits(ctx_, other, 'e', other_result));
  const auto result = [&](int64_t n) {
    return ctx_.Make(Op::GEP, sum.dtype(), {sum}, ir::Arg::Int(n));
  };
  UOp out = result(mma.results() - 1);
  for (int64_t n = mma.results() - 1; n-- > 0;)
    out = Where(ctx_, ir::Alu(ctx_, Op::CMPEQ, {number, ctx_.Idx(n)}), result(n), out);
  return out;
}

UOp RowMmas::Replaced(UOp value, const ir::Substitution& map) {
  return Rebuild(ctx_, value, [&](UOp u, std::span<const UOp> s) {
    if (const auto it = map.find(u.id()); it != map.end()) return it->second;
    const auto row = map.find(a_.rows.id());
    if (u.Is(Op::INDEX) && row != map.end()) return padding_.Gated(u, s, row->second);
    return rules::WithIndexSources(ctx_, u, s);
  });
}

UOp RowMmas::StagedWords(UOp value, UOp maybe_valid, std::span<const UOp> own, UOp tile,
                         std::span<const UOp> summed, UOp step) {
  const UOp own_place = RangeOrZero(ctx_, f_.others(), AxisType::LOOP, next_id_),
            sum_place = RangeOrZero(ctx_, f_.instruction.k, AxisType::LOOP, next_id_);
  ir::Substitution map;
  for (UOp r : own) map[r.id()] = InTile(ctx_, tile, f_.others(), own_place);
  for (UOp r : summed) map[r.id()] = InTile(ctx_, step, f_.instruction.k, sum_place);
  std::vector<PackPart> parts;
  const auto part = [&](UOp range, size_t axis, int64_t stride) {
    if (range.Is(Op::RANGE)) parts.push_back({range, axis, stride});
  };
  part(tile, 0, f_.others()), part(own_place, 0, 1);
  part(step, 1, f_.instruction.k), part(sum_place, 1, 1);
  const StagedOperand operand{
      Replaced(value, map),
      maybe_valid ? Replaced(maybe_valid, map) : UOp(),
      &f_.of_others(),
      f_.other(),
      {0, own_place},
      {1, sum_place},
      [&](UOp word) {
        std::vector<PackPart> used = parts;
        std::erase_if(used, [&](const PackPart& p) { return !ir::Reaches(ctx_, word, p.range); });
        return used;
      }};
  return StageOperand(ctx_, target_, operand, p_.lane, loads_words_, next_id_);
}

UOp RowMmas::Scores() {
  const UOp row_place = RangeOrZero(ctx_, f_.rows(), AxisType::LOOP, next_id_),
            sum_place = RangeOrZero(ctx_, f_.instruction.k, AxisType::LOOP, next_id_);
  const ir::Substitution map = {
      {a_.rows.id(), InTile(ctx_, p_.rows_tile, f_.rows(), row_place)},
      {a_.depth.id(), InTile(ctx_, p_.depth_step, f_.instruction.k, sum_place)}};
  const StagedOperand rows{Replaced(a_.first.a, map),
                           UOp(),
                           &f_.of_rows(),
                           f_.own(),
                           {0, row_place},
                           {1, sum_place},
                           nullptr};
  const UOp of_rows = DirectOperand(ctx_, rows, p_.lane, loads_words_, next_id_);
  const UOp of_keys = StagedWords(a_.first.b, UOp(), a_.keys, p_.keys.tile,
                                  std::array<UOp, 1>{a_.depth}, p_.depth_step);
  return Mma(of_rows, of_keys, p_.depth_step, p_.keys.result);
}

UOp RowMmas::Words(UOp weights) {
  const Fragment& place = f_.of_rows();
  const int64_t in_word = 32 / ir::Bits(weights.dtype());
  size_t low_bits = 0;
  while ((int64_t{1} << low_bits) < in_word) ++low_bits;
  const UOp element = RangeOrZero(ctx_, in_word, AxisType::UNROLL, next_id_);
  const std::span<const Fragment::Bit> low(f_.operand.data(), low_bits);
  std::vector<UOp> words;
  for (int64_t w = 0; w < place.elements() / in_word; ++w) {
    const auto number = [&](char axis) {
      int64_t fixed = 0;
      for (size_t bit = low_bits; bit < f_.operand.size(); ++bit) {
        if (f_.operand[bit].axis == axis)
          fixed += (w >> (bit - low_bits) & 1) << f_.operand[bit].bit;
      }
      return IndexSum(ctx_, FragmentDigits(ctx_, low, axis, element), ctx_.Idx(fixed));
    };
    ir::Substitution map;
    const auto replace = [&](UOp range, UOp by) {
      if (range.Is(Op::RANGE)) map[range.id()] = by;
    };
    replace(p_.keys.tile, InTile(ctx_, p_.key_step, f_.instruction.k / f_.others(), number('t')));
    replace(p_.keys.result, number('e'));
    replace(p_.own_result, number('q'));
    words.push_back(MakeWord(ctx_, ReplaceOpen(ctx_, weights, map), element, UOp(), false));
  }
  return ctx_.Make(Op::STACK, Dtype::U32, words);
}

UOp RowMmas::Sums(UOp weights) {
  const UOp values = a_.second.b;
  const UOp of_values =
      StagedWords(values, values.Is(Op::LOAD) ? UOp() : a_.maybe_valid,
                  std::array<UOp, 1>{a_.column}, p_.column.tile, a_.sums.closed(), p_.key_step);
  return Mma(Words(weights), of_values, p_.key_step, p_.column.result);
}

}  // namespace uopd::codegen
