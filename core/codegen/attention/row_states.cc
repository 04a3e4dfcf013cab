// SPDX-License-Identifier: MIT
#include "core/codegen/attention/row_states.h"

#include <algorithm>

#include "core/codegen/attention/online.h"
#include "core/codegen/passes/stages.h"
#include "core/ir/build.h"

namespace uopd::codegen {

using ir::Op;
using ir::UOp;

RowStates::RowStates(ir::UOpContext& ctx, UOp sink, const RowTile& tile)
    : ctx_(ctx), tile_(tile), states_(StatesOf(ctx, sink)) {}

bool RowStates::Has(UOp stage) const {
  const auto states = tile_.products.end.src(0).srcs();
  return std::ranges::find(states, stage) != states.end();
}

int64_t RowStates::Elements(UOp stage) const {
  const int64_t rows = NumbersOf(tile_.fragment.own_results);
  if (stage != tile_.products.sums_state) return rows;
  return tile_.products.columns.src(0).const_int() / tile_.fragment.others() *
         NumbersOf(tile_.fragment.other_results) * rows;
}

UOp RowStates::ElementAt(bool sums, const OtherPlaces& column) {
  const UOp at =
      sums ? InTile(ctx_, column.tile, NumbersOf(tile_.fragment.other_results), column.result)
           : ctx_.Idx(0);
  return InTile(ctx_, at, NumbersOf(tile_.fragment.own_results), tile_.places.own_result);
}

UOp RowStates::MapBuffer(UOp buffer) {
  const int64_t n = Elements(states_.at(buffer.id()));
  return ir::Buffer(ctx_, buffer.slot(), buffer.dtype(), ir::ShapeArg(ctx_, ir::Dims{n}),
                    ir::AddrSpace::REG);
}

UOp RowStates::MapStage(UOp stage, std::vector<UOp> body, bool fma) {
  const bool sums = stage == tile_.products.sums_state;
  body[1] = ElementAt(sums, tile_.places.column);
  if (sums) AppendRanges(body, {tile_.places.column.tile, tile_.places.column.result});
  AppendRanges(body, {tile_.places.own_result});
  // The product need not be rounded before it is added (docs/codegen/numbers.md).
  const UOp sum = body[0];
  if (fma && sum.Is(Op::ADD) && sum.src(0).Is(Op::MUL))
    body[0] = ir::Alu(ctx_, Op::MULACC, {sum.src(0).src(0), sum.src(0).src(1), sum.src(1)});
  return ctx_.Make(Op::STAGE, stage.dtype(), body, ir::Arg::Int(Elements(stage)), kThreadStage);
}

UOp RowStates::MaybeMapIndex(UOp index, UOp from) {
  const UOp state = MaybeState(index.src(0));
  if (!state) return UOp();
  const bool inside = index.src(0).Is(Op::BUFFER);
  const UOp array = inside ? ir::After(ctx_, from, {tile_.products.loop}) : from;
  const bool sums = states_.at(state.id()) == tile_.products.sums_state;
  return ir::Index(ctx_, array,
                   ElementAt(sums, inside ? tile_.places.column : tile_.places.columns));
}

}  // namespace uopd::codegen
