// SPDX-License-Identifier: MIT
#include "core/codegen/opts/make/word_load.h"

#include "core/codegen/passes/vectors/vectorise.h"
#include "core/ir/analysis/polynomial.h"
#include "core/ir/build.h"
#include "core/ir/graph.h"
#include "core/rules/simplify.h"

namespace uopd::codegen {

using ir::Dtype;
using ir::Op;
using ir::UOp;

UOp MaybeWordLoad(ir::UOpContext& ctx, UOp value, UOp group) {
  if (!value.Is(Op::LOAD) || !value.src(0).src(0).Is(Op::PARAM)) return UOp();
  const UOp index = value.src(0), param = index.src(0);
  const int64_t elements = group.src(0).const_int();
  const ir::Shape* shape = ctx.ShapeOf(param);
  if (shape == nullptr || shape->size() != 1 || !(*shape)[0].Is(Op::CONST)) return UOp();
  if ((*shape)[0].const_int() % elements != 0) return UOp();
  if (elements > 1 && StrideAlong(ctx, index.src(1), group) != 1) return UOp();
  const auto at = [&](UOp u, int64_t element) {
    return rules::Simplify(ctx, ir::Substitute(ctx, u, {{group.id(), ctx.Idx(element)}}));
  };
  const UOp first = ir::MaybeDivided(ctx, at(index.src(1), 0), elements);
  if (!first) return UOp();
  UOp gate;
  if (index.n_src() == 3) {
    gate = at(index.src(2), 0);
    for (int64_t e = 1; e < elements; ++e) {
      if (at(index.src(2), e) != gate) return UOp();
    }
  }
  const UOp words = ir::Param(ctx, param.slot(), Dtype::U32,
                              ir::ShapeArg(ctx, ir::Dims{(*shape)[0].const_int() / elements}));
  return ir::Load(ctx, ir::Index(ctx, words, first, gate));
}

}  // namespace uopd::codegen
