// SPDX-License-Identifier: MIT
#include "core/codegen/attention/online_states.h"

#include <utility>

#include "core/ir/build.h"
#include "core/rules/index_expr.h"

namespace uopd::codegen {

using ir::Op;
using ir::UOp;

OnlineStates::OnlineStates(ir::UOpContext& ctx, UOp loop)
    : ctx_(ctx), loop_(loop), later_(Lt(ctx, ctx.Idx(0), loop)) {}

OnlineState OnlineStates::New(ir::Dtype dtype, std::vector<UOp> along) {
  int64_t elements = 1;
  for (UOp r : along) elements *= r.src(0).const_int();
  const UOp buffer = ir::Buffer(ctx_, states_++, dtype, ir::ShapeArg(ctx_, ir::Dims{elements}),
                                ir::AddrSpace::REG);
  return {buffer, UOp(), dtype, std::move(along)};
}

UOp OnlineStates::Place(const OnlineState& state, const ir::Substitution& fresh) {
  UOp at = ctx_.Idx(0);
  for (UOp r : state.along) {
    const auto it = fresh.find(r.id());
    at = rules::IndexSum(ctx_, rules::IndexProduct(ctx_, at, r.src(0)),
                         it == fresh.end() ? r : it->second);
  }
  return at;
}

UOp OnlineStates::Before(const OnlineState& state, UOp at) {
  return ir::Load(ctx_, ir::Index(ctx_, state.buffer, at, later_));
}

void OnlineStates::SetStage(OnlineState& state, UOp value, UOp at, std::span<const UOp> ranges) {
  state.stage = ir::Staged(ctx_, value, (*ctx_.ShapeOf(state.buffer))[0].const_int(), at,
                           maybe_shown_, ranges);
}

void OnlineStates::End(std::span<const UOp> stages) {
  end_ =
      ir::End(ctx_, ctx_.Make(Op::GROUP, ir::Dtype::Void, stages), std::span<const UOp>(&loop_, 1));
}

UOp OnlineStates::After(const OnlineState& state) {
  return ir::Load(ctx_, ir::Index(ctx_, ir::After(ctx_, state.buffer, {end_}), Place(state, {})));
}

}  // namespace uopd::codegen
