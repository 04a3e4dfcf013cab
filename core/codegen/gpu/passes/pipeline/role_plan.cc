// SPDX-License-Identifier: MIT
#include "core/codegen/gpu/passes/pipeline/role_plan.h"

#include "absl/container/flat_hash_set.h"
#include "core/codegen/gpu/passes/pipeline/hoist_shared.h"

namespace uopd::codegen {

using ir::Op;
using ir::UOp;
using ir::WarpRole;

namespace {

// Of a thread that copies: addresses, coordinates and the number of the step.
constexpr int64_t kProducerRegisters = 40;
// That the compiler can give to a thread.
constexpr int64_t kUsableRegisters = 255;

}  // namespace

RolePlan MakeRolePlan(int64_t consumers, int64_t producers) {
  RolePlan out{{consumers, producers, 1, 0}, {0, consumers, consumers, 0}};
  const bool groups = consumers % WarpRole::kGroup == 0 && producers % WarpRole::kGroup == 0;
  if (!groups || WarpRole::AtLaunch(consumers + producers) >= kUsableRegisters) return out;
  const int64_t rest = WarpRole::Rest(kProducerRegisters, producers, consumers);
  if (rest <= WarpRole::AtLaunch(consumers + producers)) return out;
  out.producer.registers = kProducerRegisters;
  out.consumer.registers = rest;
  return out;
}

UOp JoinRoles(ir::UOpContext& ctx, const RolePlan& plan, UOp thread, const RoleLines& lines) {
  std::vector<UOp> out;
  absl::flat_hash_set<uint32_t> listed;
  const auto add = [&](UOp u) {
    if (listed.insert(u.id()).second) out.push_back(u);
    return u;
  };
  const auto role = [&](const WarpRole& r) {
    return add(ctx.Make(Op::ROLE, ir::Dtype::Void, {thread}, r.ToArg(ctx)));
  };
  const auto end = [&](UOp begin) { add(ctx.Make(Op::ROLE_END, ir::Dtype::Void, {begin})); };
  for (UOp u : lines.before) {
    if (u.Is({Op::PARAM, Op::BUFFER, Op::DEFINE_VAR, Op::SPECIAL})) add(u);
  }
  for (UOp u : lines.init) add(u);
  const UOp producer = role(plan.producer);
  for (UOp u : lines.copies) add(u);
  end(producer);
  const UOp consumer = role(plan.consumer);
  for (UOp u : lines.before) add(u);
  for (UOp u : lines.computes) add(u);
  end(consumer);
  return HoistShared(ctx, ctx.Make(Op::LINEAR, ir::Dtype::Void, out));
}

}  // namespace uopd::codegen
