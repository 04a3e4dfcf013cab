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

int64_t PlacesOf(std::span<const PackPart> parts) {
  int64_t out = 1;
  for (const PackPart& p : parts) out *= p.range.src(0).const_int();
  return out;
}

// Whether a warp that loads matrices of 8 x 8 elements of 16 bits gets the fragment in the right lanes: lanes hold four
// words of each of eight rows or columns.
bool IsOfMatrices(const Fragment& place, char own, int low_bits) {
  const std::vector<Fragment::Bit> lane = {
      {'k', low_bits}, {'k', low_bits + 1}, {own, 0}, {own, 1}, {own, 2}};
  return place.lane == lane;
}

}  // namespace

UOp OptPlan::StagedWords(UOp value, UOp maybe_valid, const Fragment& place, char own,
                         size_t own_axis, std::span<const MadeAxis> made, const WarpRanges& warp,
                         int64_t& next_id) {
  const int64_t in_word = 32 / ir::Bits(value.dtype());
  const int low_bits = std::countr_zero(static_cast<uint64_t>(in_word));
  const bool of_matrices = target_.matrix_loads && IsOfMatrices(place, own, low_bits);
  // Words of elements that follow each other along an axis; first the place of a word, then the word.
  const UOp element = Range(ctx_, ctx_.Idx(in_word), next_id++, AxisType::UNROLL);
  const auto words_along = [&](size_t axis, bool in_memory) {
    const UOp tile = made[axis].maybe_mma;
    const UOp at =
        Range(ctx_, ctx_.Idx(tile.src(0).const_int() / in_word), next_id++, AxisType::REDUCE);
    const ir::Substitution map = {
        {tile.id(), IndexSum(ctx_, IndexProduct(ctx_, at, ctx_.Idx(in_word)), element)}};
    const UOp mine = ir::Substitute(ctx_, value, map);
    if (in_memory) return std::pair(at, MaybeWordLoad(ctx_, mine, element));
    const UOp gate = maybe_valid ? ir::Substitute(ctx_, maybe_valid, map) : UOp();
    return std::pair(at, MakeWord(ctx_, mine, element, gate, false));
  };
  size_t word_axis = group_axis_, row_axis = own_axis;
  UOp word, from;
  if (loads_words_) std::tie(word, from) = words_along(word_axis, true);
  const bool transposed = !from && loads_words_ && of_matrices && in_word == 2;
  if (transposed) std::tie(word, from) = words_along(own_axis, true);
  if (from && transposed) std::swap(word_axis, row_axis);
  if (!from) std::tie(word, from) = words_along(word_axis, false);
  // The parts of a row's words, and of the rows; both slowest first. Neighbouring rows are those of a fragment.
  std::vector<PackPart> rows, words;
  for (const PackPart& p : PartsOf(from, made, true))
    (p.axis == word_axis ? words : rows).push_back(p);
  words.push_back(
      {word, word_axis, made[word_axis].mma_stride * in_word, axes_[word_axis].is_reduce});
  const auto slowest_first = [&](const PackPart& a, const PackPart& b) {
    const auto key = [&](const PackPart& p) {
      return std::tuple(p.axis == row_axis, p.axis, -p.stride);
    };
    return key(a) < key(b);
  };
  std::ranges::sort(rows, slowest_first);
  std::ranges::sort(words, slowest_first);
  const SharedRows layout(PlacesOf(rows), PlacesOf(words));
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
  const UOp index = at([](UOp r) { return r; });
  const char row = row_axis == own_axis ? own : 'k', column = row_axis == own_axis ? 'k' : own;
  // What a lane holds: the bits of a place along `column` count words.
  const auto in_words = [&](std::vector<Fragment::Bit> bits) {
    for (Fragment::Bit& b : bits) b.bit -= b.axis == column ? low_bits : 0;
    return bits;
  };
  const int64_t count = place.elements() / in_word;
  if (of_matrices) {
    // The lane gives the address of a row of a matrix: first the bits of the row, then those of the matrix.
    std::vector<Fragment::Bit> bits = {{row, 0}, {row, 1}, {row, 2}};
    bits.insert(bits.end(), place.element.begin() + low_bits, place.element.end());
    bits.resize(place.lane.size());
    bits = in_words(bits);
    const UOp mine = ir::Substitute(
        ctx_, index,
        {{word.id(), FragmentDigits(ctx_, bits, column, warp.lane)},
         {made[row_axis].maybe_mma.id(), FragmentDigits(ctx_, bits, row, warp.lane)}});
    return ctx_.Make(Op::MATRIX_LOAD, Dtype::U32,
                     {ir::Index(ctx_, array, mine, UOp(), SharedRows::kPiece)},
                     ctx_.Data({count, column == own ? 1 : 0}));
  }
  const std::vector<Fragment::Bit> lane = in_words(place.lane);
  std::vector<UOp> out;
  for (int64_t w = 0; w < count; ++w) {
    const auto of_lane = [&](char axis, int64_t scale) {
      return IndexSum(ctx_, FragmentDigits(ctx_, lane, axis, warp.lane),
                      ctx_.Idx(place.Place(axis, 0, w * in_word) / scale));
    };
    const UOp mine = ir::Substitute(
        ctx_, index,
        {{word.id(), of_lane(column, in_word)}, {made[row_axis].maybe_mma.id(), of_lane(row, 1)}});
    out.push_back(ir::Load(ctx_, ir::Index(ctx_, array, mine)));
  }
  return ctx_.Make(Op::STACK, Dtype::U32, out);
}

}  // namespace uopd::codegen
