// SPDX-License-Identifier: MIT
#include "core/codegen/gpu/passes/pipeline/pipeline_ring.h"

#include "core/codegen/gpu/passes/pipeline/pipeline_step.h"
#include "core/codegen/gpu/passes/threads/thread_digits.h"
#include "core/ir/build.h"
#include "core/ir/tensor_map.h"
#include "core/rules/index_expr.h"

namespace uopd::codegen {

using ir::Op;
using ir::UOp;

UOp PipelineRing::Make(const PipelineArray& array) {
  const UOp u = array.buffer;
  return made_[u.id()].array =
             ir::Buffer(ctx_, u.slot(), u.dtype(),
                        ir::ShapeArg(ctx_, ir::Dims{array.elements * plan_.parts}), u.addrspace());
}

UOp PipelineRing::BeginParts(UOp step, LineList& out) {
  const UOp part = out.AddAll(PartOf(step));
  for (const PipelineArray& array : loop_.arrays)
    made_[array.buffer.id()].part = out.AddAll(BeginOf(part, array));
  return part;
}

UOp PipelineRing::MaybePart(const PipelineArray& array) const {
  const auto it = made_.find(array.buffer.id());
  return it == made_.end() ? UOp() : it->second.part;
}

void PipelineRing::CopyStep(UOp step, LineList& out) {
  const UOp size = loop_.range.src(0);
  UOp is_step = Lt(ctx_, step, size);
  if (step.Is(Op::CONST) && size.Is(Op::CONST)) {
    if (step.const_int() >= size.const_int()) return;
    is_step = UOp();
  }
  const UOp part = step.Is(Op::CONST) ? ctx_.Idx(step.const_int() % plan_.parts) : PartOf(step);
  if (!plan_.boxes) return CopyWords(step, part, is_step, out);
  CopyBoxes(step, part, MaybeBoth(ctx_, plan_.boxes->first_thread, is_step), out);
}

void PipelineRing::CopyWords(UOp step, UOp part, UOp maybe_gate, LineList& out) {
  for (UOp store : loop_.copies) {
    const UOp to = store.src(0), from = store.src(1).src(0);
    const PipelineArray& array = *loop_.MaybeArray(to.src(0));
    const auto in_step = [&](UOp u) { return InStep(ctx_, u, loop_.range, step); };
    const auto gate_of = [&](UOp index) { return MaybeGateInStep(ctx_, index, loop_.range, step); };
    const UOp at = rules::IndexSum(ctx_, in_step(to.src(1)), BeginOf(part, array));
    const UOp target = ir::Index(ctx_, made_.at(array.buffer.id()).array, at,
                                 MaybeBoth(ctx_, gate_of(to), maybe_gate), to.arg().AsInt());
    const UOp source =
        ir::Index(ctx_, from.src(0), in_step(from.src(1)), gate_of(from), from.arg().AsInt());
    out.AddAll(ctx_.Make(Op::ASYNC_COPY, ir::Dtype::Void, {target, source}));
  }
}

void PipelineRing::CopyBoxes(UOp step, UOp part, UOp maybe_gate, LineList& out) {
  const PipelineBoxes& boxes = *plan_.boxes;
  out.AddAll(ctx_.Make(Op::BULK_EXPECT, ir::Dtype::Void,
                       {ir::Index(ctx_, boxes.filled, part, maybe_gate)},
                       ctx_.Data({boxes.bytes})));
  const UOp barrier = ir::Index(ctx_, boxes.filled, part);
  for (size_t i = 0; i < boxes.plans.size(); ++i) {
    const PipelineArray& array = loop_.arrays[i];
    const BulkPlan& plan = boxes.plans[i];
    const UOp made = made_.at(array.buffer.id()).array;
    for (const BulkBox& box : plan.boxes) {
      const UOp at = rules::IndexSum(ctx_, BeginOf(part, array), ctx_.Idx(box.to));
      out.AddAll(ctx_.Make(
          Op::BULK_COPY, ir::Dtype::Void,
          {ir::Index(ctx_, made, at, maybe_gate), plan.from, barrier,
           InStep(ctx_, box.x, loop_.range, step), InStep(ctx_, box.y, loop_.range, step)},
          ir::TensorMapArg(ctx_, plan.map)));
    }
  }
}

UOp PipelineRing::PartOf(UOp step) {
  return ir::Alu(ctx_, Op::CMOD, {step, ctx_.Idx(plan_.parts)});
}

UOp PipelineRing::TurnOf(UOp step) {
  return ir::Alu(ctx_, Op::CDIV, {step, ctx_.Idx(plan_.parts)});
}

UOp PipelineRing::BeginOf(UOp part, const PipelineArray& array) {
  return rules::IndexProduct(ctx_, part, ctx_.Idx(array.elements));
}

}  // namespace uopd::codegen
