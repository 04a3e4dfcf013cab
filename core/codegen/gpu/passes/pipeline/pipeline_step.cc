// SPDX-License-Identifier: MIT
#include "core/codegen/gpu/passes/pipeline/pipeline_step.h"

#include <vector>

#include "core/codegen/gpu/passes/threads/thread_digits.h"
#include "core/ir/build.h"
#include "core/ir/graph.h"
#include "core/rules/index_expr.h"

namespace uopd::codegen {

using ir::Op;
using ir::UOp;

UOp InStep(ir::UOpContext& ctx, UOp u, UOp range, UOp step, const StepLoads& loaded) {
  absl::flat_hash_map<uint32_t, UOp> done;
  std::vector<UOp> srcs;
  for (UOp n : ir::Toposort(ctx, u)) {
    srcs.clear();
    for (UOp s : n.srcs()) srcs.push_back(done.at(s.id()));
    const auto it = loaded.find(n.id());
    done[n.id()] = n == range                      ? step
                   : it != loaded.end()            ? it->second
                   : n.Is({Op::PARAM, Op::BUFFER}) ? n
                                                   : rules::WithIndexSources(ctx, n, srcs);
  }
  return done.at(u.id());
}

UOp MaybeGateInStep(ir::UOpContext& ctx, UOp index, UOp range, UOp step) {
  const UOp gate = MaybeGateOf(index);
  return gate ? InStep(ctx, gate, range, step) : UOp();
}

StepLoads FetchStep(ir::UOpContext& ctx, const PipelineLoop& loop, UOp step, LineList& out) {
  const UOp size = loop.range.src(0);
  const bool is_step = step.Is(Op::CONST) && size.Is(Op::CONST);  // the loop has a first step
  const UOp gate = is_step ? UOp() : Lt(ctx, step, size);
  StepLoads loaded;
  for (UOp store : loop.copies) {
    for (UOp u : ir::Toposort(ctx, store.src(1))) {
      if (!u.Is(Op::LOAD) || loaded.contains(u.id())) continue;
      const UOp from = u.src(0);
      const UOp own = MaybeGateInStep(ctx, from, loop.range, step);
      const UOp source = ir::Index(ctx, from.src(0), InStep(ctx, from.src(1), loop.range, step),
                                   MaybeBoth(ctx, own, gate), from.arg().AsInt());
      loaded[u.id()] = out.AddAll(ctx.WithSources(u, std::span<const UOp>(&source, 1)));
    }
  }
  return loaded;
}

void DepositStep(ir::UOpContext& ctx, const PipelineLoop& loop, UOp step, const StepLoads& loaded,
                 LineList& out) {
  for (UOp store : loop.copies) out.AddAll(InStep(ctx, store, loop.range, step, loaded));
}

}  // namespace uopd::codegen
