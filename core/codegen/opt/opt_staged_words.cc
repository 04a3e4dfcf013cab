// SPDX-License-Identifier: MIT
// OptPlan: operands of matrix instructions of warps, staged by the block as 32-bit words.
//
// The array has a row for each row or column of the operand, and the words of a row follow each other along the sum
// (SharedRows). A word of a lane's fragment is one load. Words that lie in memory as words are copied as words;
// others are made of their elements while they are staged.
#include <algorithm>
#include <bit>
#include <tuple>

#include "core/codegen/opt/fragment_index.h"
#include "core/codegen/opt/opt_plan.h"
#include "core/codegen/opt/shared_rows.h"
#include "core/codegen/opt/word_load.h"
#include "core/codegen/passes/stages.h"
#include "core/ir/build.h"
#include "core/ir/graph.h"
#include "core/rules/index_expr.h"

namespace uopd::codegen {

using ir::AxisType;
using ir::Dtype;
using ir::Op;
using ir::UOp;
using rules::IndexProduct;
using rules::IndexSum;

namespace {

// The place along some parts as one number, the first part varying slowest.
template <class ValueOf>
UOp PlaceAlong(ir::UOpContext& ctx, std::span<const PackPart> parts, const ValueOf& value_of) {
  UOp at = ctx.Idx(0);
  for (const PackPart& p : parts)
    at = IndexSum(ctx, IndexProduct(ctx, at, p.range.src(0)), value_of(p.range));
  return at;
}

int64_t Places(std::span<const PackPart> parts) {
  int64_t out = 1;
  for (const PackPart& p : parts) out *= p.range.src(0).const_int();
  return out;
}

}  // namespace

UOp OptPlan::StagedWords(UOp value, UOp maybe_valid, const Fragment& place, char own,
                         size_t own_axis, std::span<const MadeAxis> made, const WarpRanges& warp,
                         int64_t& next_id) {
  const int64_t in_word = 32 / ir::Bits(value.dtype());
  const int low_bits = std::countr_zero(static_cast<uint64_t>(in_word));
  const MadeAxis& sum_axis = made[group_axis_];
  // The elements of the instruction along the sum are words of elements.
  const UOp word = Range(ctx_, ctx_.Idx(sum_axis.maybe_mma.src(0).const_int() / in_word), next_id++,
                         AxisType::REDUCE);
  const UOp element = Range(ctx_, ctx_.Idx(in_word), next_id++, AxisType::UNROLL);
  const ir::Substitution in_words = {
      {sum_axis.maybe_mma.id(),
       IndexSum(ctx_, IndexProduct(ctx_, word, ctx_.Idx(in_word)), element)}};
  const UOp mine = ir::Substitute(ctx_, value, in_words);
  UOp from = loads_words_ ? MaybeWordLoad(ctx_, mine, element) : UOp();
  if (!from) {
    const UOp gate = maybe_valid ? ir::Substitute(ctx_, maybe_valid, in_words) : UOp();
    from = MakeWord(ctx_, mine, element, gate, false);
  }
  // The parts of a row's words, and of the rows; both slowest first. Neighbouring rows are those of a fragment.
  std::vector<PackPart> rows, words;
  for (const PackPart& p : PartsOf(from, made, true))
    (p.axis == group_axis_ ? words : rows).push_back(p);
  words.push_back({word, group_axis_, sum_axis.mma_stride * in_word, true});
  const auto slowest_first = [&](const PackPart& a, const PackPart& b) {
    const auto key = [&](const PackPart& p) {
      return std::tuple(p.axis == own_axis, p.axis, -p.stride);
    };
    return key(a) < key(b);
  };
  std::ranges::sort(rows, slowest_first);
  std::ranges::sort(words, slowest_first);
  const SharedRows layout(Places(rows), Places(words));
  const auto at = [&](const auto& value_of) {
    return layout.Index(ctx_, PlaceAlong(ctx_, rows, value_of), PlaceAlong(ctx_, words, value_of));
  };
  // The loops that fill the array.
  ir::Substitution fresh;
  std::vector<UOp> closed;
  for (const auto& parts : {rows, words}) {
    for (const PackPart& p : parts) {
      closed.push_back(Range(ctx_, p.range.src(0), next_id++, AxisType::REDUCE));
      fresh[p.range.id()] = closed.back();
    }
  }
  const UOp array = ir::Staged(ctx_, ir::Substitute(ctx_, from, fresh), layout.size(),
                               at([&](UOp r) { return fresh.at(r.id()); }), UOp(), closed);
  const UOp load = ir::Load(ctx_, ir::Index(ctx_, array, at([](UOp r) { return r; })));
  // What a lane holds of it.
  std::vector<Fragment::Bit> lane = place.lane;
  for (Fragment::Bit& b : lane) b.bit -= b.axis == 'k' ? low_bits : 0;
  std::vector<UOp> out;
  for (int64_t w = 0; w < place.elements() / in_word; ++w) {
    const auto of_lane = [&](char axis, int64_t scale) {
      return IndexSum(ctx_, FragmentDigits(ctx_, lane, axis, warp.lane),
                      ctx_.Idx(place.Place(axis, 0, w * in_word) / scale));
    };
    ir::Substitution map = {{word.id(), of_lane('k', in_word)}};
    if (made[own_axis].maybe_mma) map[made[own_axis].maybe_mma.id()] = of_lane(own, 1);
    out.push_back(ir::Substitute(ctx_, load, map));
  }
  return ctx_.Make(Op::STACK, Dtype::U32, out);
}

}  // namespace uopd::codegen
