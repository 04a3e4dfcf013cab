// SPDX-License-Identifier: MIT
#include "core/codegen/opts/opt_plan.h"

#include <algorithm>
#include <optional>

#include "core/base/text.h"
#include "core/codegen/gpu/passes/threads/map_threads.h"
#include "core/codegen/opts/make/make_kernel.h"
#include "core/codegen/opts/opt_row.h"
#include "core/codegen/passes/stages.h"

namespace uopd::codegen {

using ir::Op;
using ir::UOp;
using ir::UOpContext;

absl::Status Bad(const Opt& opt, std::string_view why) {
  return absl::InvalidArgumentError(Cat("opt ", Text(opt), " does not apply: ", why));
}

OptPlan::OptPlan(UOpContext& ctx, UOp sink, const Target& target)
    : ctx_(ctx),
      target_(target),
      given_(std::make_shared<const PlanKernel>(ctx, sink)),
      state_(given_) {}

void OptPlan::Clear() {
  state_ = PlanState(given_);
  opts_.clear();
}

absl::Status OptPlan::CheckOperands(const Opt& opt) const {
  using enum Operand::Names;
  using enum Machines;
  const OptRow& row = RowOf(opt.kind);
  if (!row.IsFor(target_))
    return Bad(opt, row.machines == kGpus ? "the target has no blocks" : "the target has blocks");
  const PlanKernel& kernel = *state_.kernel;
  const auto check = [&](const Operand& operand, std::string_view field, int64_t number) {
    const auto below = [&](size_t count, std::string_view what) {
      if (number >= 0 && number < static_cast<int64_t>(count)) return absl::OkStatus();
      return Bad(opt, Cat("the kernel has ", count, what));
    };
    switch (operand.names) {
      case kNothing:
        return number == 0 ? absl::OkStatus() : Bad(opt, Cat(row.name, " has no ", field));
      case kAxis:
        return below(state_.axes.size(), " axes");
      case kLoad:
        return below(kernel.loads.size(), " loads to pack");
      case kRead:
        return below(kernel.reads.size(), " loads of what it only reads");
      case kStore:
        return below(kernel.stores.size(), " stores");
      default:
        return number >= 0 ? absl::OkStatus() : Bad(opt, Cat("the ", field, " is negative"));
    }
  };
  UOPD_TRY(check(row.axis, "axis", opt.axis));
  UOPD_TRY(check(row.amount, "amount", opt.amount));
  return check(row.warps, "number of warps", opt.warps);
}

absl::Status OptPlan::Add(const Opt& opt) {
  const OptRow& row = RowOf(opt.kind);
  if (state_.persists) return Bad(opt, "PERSIST is the last opt");
  UOPD_TRY(CheckOperands(opt));
  const bool checks_size = (IsStaged() || row.makes_stages) && !row.keeps_size;
  std::optional<PlanState> before;
  if (checks_size || row.makes_lanes) before = state_;
  Adding adding{ctx_, target_, state_, opts_};
  UOPD_TRY(row.add(adding, opt));
  std::string why = row.makes_lanes ? WrongLanes() : "";
  if (why.empty() && checks_size) why = TooLarge(Make());
  if (!why.empty()) {
    state_ = *std::move(before);
    return Bad(opt, why);
  }
  opts_.push_back(opt);
  return absl::OkStatus();
}

absl::StatusOr<UOp> OptPlan::Apply() {
  if (const std::string why = WrongLanes(); !why.empty())
    return absl::InvalidArgumentError(Cat("opts do not apply: ", why));
  const UOp out = Make();
  if ((state_.kernel->has_stages || MachineOf(target_).limits_blocks) &&
      opts_.empty()) {  // otherwise Add has checked it
    if (const std::string why = TooLarge(out); !why.empty())
      return absl::ResourceExhaustedError(why);
  }
  return out;
}

int64_t OptPlan::SharedBytes() {
  const auto mapped = MapThreads(ctx_, Make(), target_);
  return mapped.ok() ? StagedBytes(ctx_, mapped->sink).shared_bytes : 0;
}

UOp OptPlan::Make() const { return MakeKernel({ctx_, target_, state_}); }

bool OptPlan::IsStaged() const {
  return MachineOf(target_).limits_blocks || state_.kernel->has_stages || !state_.packed.empty() ||
         std::ranges::any_of(state_.axes, &PlanAxis::HasPanel);
}

std::string OptPlan::WrongLanes() const {
  const PlanKernel& kernel = *state_.kernel;
  const bool of_warp = state_.instruction && state_.instruction->of_warp();
  const std::vector<uint64_t> vectors = kernel.Marked(state_.axes, &PlanAxis::is_vector);
  for (UOp u : kernel.order) {
    if (u.Is({Op::END, Op::SINK, Op::GROUP})) continue;
    const int n = kernel.CountAlong(u, vectors);
    if (n > 0 && of_warp && state_.IsMmaSum(u))
      return "operands in the registers of a warp would depend on a VECTOR axis";
    if (n > 1) return "a value would depend on two VECTOR axes";
  }
  return "";
}

std::string OptPlan::TooLarge(UOp made) const {
  return MachineOf(target_).too_large(ctx_, made, target_, state_.parts);
}

absl::StatusOr<UOp> ApplyOpts(UOpContext& ctx, UOp sink, const Target& target,
                              std::span<const Opt> opts) {
  OptPlan plan(ctx, sink, target);
  for (const Opt& opt : opts) UOPD_TRY(plan.Add(opt));
  return plan.Apply();
}

}  // namespace uopd::codegen
