// SPDX-License-Identifier: MIT
#include "core/schedule/prepare/float_variables.h"

#include "core/ir/build.h"
#include "core/ir/graph.h"

namespace uopd::schedule {

using ir::Dtype;
using ir::UOp;

UOp LowerFloatVariables(ir::UOpContext& ctx, std::span<const UOp> order) {
  ir::Substitution map;
  for (UOp u : order) {
    if (!ir::IsFloat(u.dtype())) continue;
    if (u.Is(ir::Op::BIND)) {
      const UOp variable = map.at(u.src(0).id());  // before the table grows
      map[u.id()] = variable;
    }
    if (!u.Is(ir::Op::DEFINE_VAR)) continue;
    const UOp bits = ir::Variable(ctx, u.text(), INT64_MIN, INT64_MAX);
    const UOp wide = ir::Bitcast(ctx, ir::Cast(ctx, bits, Dtype::I64), Dtype::F64);
    map[u.id()] = ir::Cast(ctx, wide, u.dtype());
  }
  return ir::Substitute(ctx, order.back(), map);
}

}  // namespace uopd::schedule
