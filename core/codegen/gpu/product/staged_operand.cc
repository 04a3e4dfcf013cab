// SPDX-License-Identifier: MIT
#include "core/codegen/gpu/product/staged_operand.h"

#include <algorithm>
#include <bit>
#include <tuple>
#include <utility>

#include "core/codegen/gpu/product/fragment_index.h"
#include "core/codegen/gpu/product/shared_rows.h"
#include "core/codegen/opts/make/tensor_core.h"
#include "core/codegen/opts/make/word_load.h"
#include "core/codegen/passes/stages.h"
#include "core/ir/build.h"
#include "core/ir/graph.h"
#include "core/rules/index_expr.h"

namespace uopd::codegen {
namespace {

using ir::AxisType;
using ir::Dtype;
using ir::Op;
using ir::UOp;
using rules::IndexProduct;
using rules::IndexSum;

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

// Whether a warp that loads matrices of 8 x 8 elements of 16 bits gets the fragment in the right
// lanes: lanes hold four words of each of eight rows or columns.
bool IsOfMatrices(const Fragment& place, char own, int low_bits) {
  const std::vector<Fragment::Bit> lane = {
      {'k', low_bits}, {'k', low_bits + 1}, {own, 0}, {own, 1}, {own, 2}};
  return place.lane == lane;
}

// The rows of an operand, staged by the block.
struct StagedRows {
  UOp array;              // a STAGE
  UOp index;              // of a word; of swizzled rows, where an instruction begins to read
  UOp row, word;          // RANGEs of the index: the places of a row and of a word inside of a tile
  bool along_sum = true;  // the words of a row follow each other along the sum
  ir::SharedMatrix matrix;  // of swizzled rows
};

// `transposes`: elements of 16 bits that follow each other across the sum may be staged as they
// lie.
StagedRows StageRows(ir::UOpContext& ctx, const StagedOperand& operand, bool transposes,
                     bool swizzled, bool loads_words, int64_t& next_id) {
  const UOp value = operand.value;
  const int64_t in_word = 32 / ir::Bits(value.dtype());
  // Words of elements that follow each other along an axis; first the place of a word, then the
  // word.
  const UOp element = Range(ctx, ctx.Idx(in_word), next_id++, AxisType::UNROLL);
  const auto words_along = [&](const InstructionTile& along, bool in_memory) {
    const UOp tile = along.range;
    const UOp at =
        Range(ctx, ctx.Idx(tile.src(0).const_int() / in_word), next_id++, AxisType::REDUCE);
    const ir::Substitution map = {
        {tile.id(), IndexSum(ctx, IndexProduct(ctx, at, ctx.Idx(in_word)), element)}};
    const UOp mine = ir::Substitute(ctx, value, map);
    if (in_memory) return std::pair(at, MaybeWordLoad(ctx, mine, element));
    const UOp gate = operand.maybe_valid ? ir::Substitute(ctx, operand.maybe_valid, map) : UOp();
    return std::pair(at, MakeWord(ctx, mine, element, gate, false));
  };
  const InstructionTile *words_of = &operand.sum_tile, *rows_of = &operand.own_tile;
  UOp word, from;
  if (loads_words) std::tie(word, from) = words_along(*words_of, true);
  const bool transposed = !from && loads_words && transposes && in_word == 2;
  if (transposed) std::tie(word, from) = words_along(operand.own_tile, true);
  if (from && transposed) std::swap(words_of, rows_of);
  if (!from) std::tie(word, from) = words_along(*words_of, false);
  // The parts of a row's words, and of the rows; both slowest first. Neighbouring rows are those of
  // a fragment.
  std::vector<PackPart> rows, words;
  for (const PackPart& p : operand.parts(from))
    (p.axis == words_of->axis ? words : rows).push_back(p);
  words.push_back({word, words_of->axis, words_of->stride * in_word});
  const auto slowest_first = [&](const PackPart& a, const PackPart& b) {
    const auto key = [&](const PackPart& p) {
      return std::tuple(p.axis == rows_of->axis, p.axis, -p.stride);
    };
    return key(a) < key(b);
  };
  std::ranges::sort(rows, slowest_first);
  std::ranges::sort(words, slowest_first);
  StagedRows out;
  out.along_sum = words_of == &operand.sum_tile;
  // An instruction that reads shared memory begins at a span of each row; across the sum each tile
  // has its own ones.
  const int64_t row_words = PlacesOf(words),
                spanned = out.along_sum ? row_words : PlacesOf({&words.back(), 1});
  const SharedRows layout = swizzled ? SharedRows::Swizzled(PlacesOf(rows), row_words,
                                                            SharedRows::WidestSpan(4 * spanned))
                                     : SharedRows(PlacesOf(rows), row_words);
  // The loops that fill the array.
  ir::Substitution fresh;
  std::vector<UOp> closed;
  for (const auto& parts : {rows, words}) {
    for (const PackPart& p : parts) {
      closed.push_back(Range(ctx, p.range.src(0), next_id++, AxisType::REDUCE));
      fresh[p.range.id()] = closed.back();
    }
  }
  const auto itself = [](UOp r) { return r; };
  const auto filled = [&](UOp r) { return fresh.at(r.id()); };
  out.array =
      ir::Staged(ctx, ir::Substitute(ctx, from, fresh), layout.size(),
                 layout.Index(ctx, PlaceAlong(ctx, rows, filled), PlaceAlong(ctx, words, filled)),
                 UOp(), closed);
  const UOp row_at = PlaceAlong(ctx, rows, itself), word_at = PlaceAlong(ctx, words, itself);
  out.index = swizzled ? layout.Start(ctx, row_at, word_at) : layout.Index(ctx, row_at, word_at);
  if (swizzled) out.matrix = layout.Matrix(out.along_sum);
  out.word = word;
  out.row = rows_of->range;
  return out;
}

// What the block copies of an element that is an f32 in memory, rounded to tf32: the f32. So copies
// may run on their own, and a lane rounds the words that it has loaded. Null: the element is
// something else.
UOp MaybeUnrounded(const Target& target, UOp value) {
  const bool rounds = value.Is(Op::CAST) && value.dtype() == Dtype::TF32 &&
                      value.src(0).Is(Op::LOAD) && value.src(0).dtype() == Dtype::F32;
  return rounds && target.dtypes.Has(DtypeNumber::TF32) ? value.src(0) : UOp();
}

}  // namespace

SharedOperand StageMatrix(ir::UOpContext& ctx, const StagedOperand& operand, bool loads_words,
                          int64_t& next_id) {
  const StagedRows staged = StageRows(ctx, operand, true, true, loads_words, next_id);
  const ir::Substitution first = {{staged.word.id(), ctx.Idx(0)}, {staged.row.id(), ctx.Idx(0)}};
  return {ir::Index(ctx, staged.array, ir::Substitute(ctx, staged.index, first)), staged.matrix};
}

UOp StageOperand(ir::UOpContext& ctx, const Target& target, const StagedOperand& wanted, UOp lane,
                 bool loads_words, int64_t& next_id) {
  StagedOperand operand = wanted;
  const UOp unrounded = MaybeUnrounded(target, wanted.value);
  if (unrounded) operand.value = unrounded;
  const auto rounded = [&](UOp words) {
    if (!unrounded) return words;
    const UOp tf32 = ir::Cast(ctx, ir::Bitcast(ctx, words, Dtype::F32), Dtype::TF32);
    return ir::Bitcast(ctx, tf32, Dtype::U32);
  };
  const Fragment& place = *operand.place;
  const char own = operand.own;
  const int64_t in_word = 32 / ir::Bits(operand.value.dtype());
  const int low_bits = std::countr_zero(static_cast<uint64_t>(in_word));
  const bool of_matrices = target.matrix_loads && IsOfMatrices(place, own, low_bits);
  const StagedRows staged = StageRows(ctx, operand, of_matrices, false, loads_words, next_id);
  const UOp array = staged.array, index = staged.index, word = staged.word;
  const char row = staged.along_sum ? own : 'k', column = staged.along_sum ? 'k' : own;
  // What a lane holds: the bits of a place along `column` count words.
  const auto in_words = [&](std::vector<Fragment::Bit> bits) {
    for (Fragment::Bit& b : bits) b.bit -= b.axis == column ? low_bits : 0;
    return bits;
  };
  const int64_t count = place.elements() / in_word;
  if (of_matrices) {
    // The lane gives the address of a row of a matrix: first the bits of the row, then those of the
    // matrix.
    std::vector<Fragment::Bit> bits = {{row, 0}, {row, 1}, {row, 2}};
    bits.insert(bits.end(), place.element.begin() + low_bits, place.element.end());
    bits.resize(place.lane.size());
    bits = in_words(bits);
    const UOp mine = ir::Substitute(ctx, index,
                                    {{word.id(), FragmentDigits(ctx, bits, column, lane)},
                                     {staged.row.id(), FragmentDigits(ctx, bits, row, lane)}});
    return rounded(ctx.Make(Op::MATRIX_LOAD, Dtype::U32,
                            {ir::Index(ctx, array, mine, UOp(), SharedRows::kPiece)},
                            ctx.Data({count, column == own ? 1 : 0})));
  }
  const std::vector<Fragment::Bit> lane_bits = in_words(place.lane);
  std::vector<UOp> out;
  for (int64_t w = 0; w < count; ++w) {
    const auto of_lane = [&](char axis, int64_t scale) {
      return IndexSum(ctx, FragmentDigits(ctx, lane_bits, axis, lane),
                      ctx.Idx(place.Place(axis, 0, w * in_word) / scale));
    };
    const UOp mine = ir::Substitute(
        ctx, index, {{word.id(), of_lane(column, in_word)}, {staged.row.id(), of_lane(row, 1)}});
    out.push_back(rounded(ir::Load(ctx, ir::Index(ctx, array, mine))));
  }
  return ctx.Make(Op::STACK, Dtype::U32, out);
}

UOp DirectOperand(ir::UOpContext& ctx, const StagedOperand& operand, UOp lane, bool loads_words,
                  int64_t& next_id) {
  const Fragment& place = *operand.place;
  const int64_t in_word = 32 / ir::Bits(operand.value.dtype());
  const auto low_bits = static_cast<size_t>(std::countr_zero(static_cast<uint64_t>(in_word)));
  const UOp element = Range(ctx, ctx.Idx(in_word), next_id++, AxisType::UNROLL);
  const std::span<const Fragment::Bit> low(place.element.data(), low_bits);
  std::vector<UOp> out;
  for (int64_t w = 0; w < place.elements() / in_word; ++w) {
    const auto at = [&](char axis) {
      const UOp fixed = ctx.Idx(place.Place(axis, 0, w * in_word));
      return IndexSum(ctx,
                      IndexSum(ctx, FragmentDigits(ctx, place.lane, axis, lane),
                               FragmentDigits(ctx, low, axis, element)),
                      fixed);
    };
    const ir::Substitution map = {{operand.own_tile.range.id(), at(operand.own)},
                                  {operand.sum_tile.range.id(), at('k')}};
    const UOp mine = ir::Substitute(ctx, operand.value, map);
    UOp word = loads_words ? MaybeWordLoad(ctx, mine, element) : UOp();
    if (!word) {
      const UOp gate = operand.maybe_valid ? ir::Substitute(ctx, operand.maybe_valid, map) : UOp();
      word = MakeWord(ctx, mine, element, gate, false);
    }
    out.push_back(word);
  }
  return ctx.Make(Op::STACK, Dtype::U32, out);
}

}  // namespace uopd::codegen
