// SPDX-License-Identifier: MIT
#include "tests/support/blocks_schedule.h"

#include <cmath>

#include "core/base/text.h"
#include "core/ir/verify/spec.h"
#include "tests/support/lowered_run.h"
#include "tests/support/schedule_interpreter.h"

namespace uopd::test {

absl::StatusOr<BlocksRun> RunForBlocks(
    const std::function<void(ir::UOpContext&, GraphBuilder&)>& build, const Target& target,
    const RunBlocks& run) {
  BlocksRun out;
  ir::UOpContext ctx;
  GraphBuilder g(ctx);
  build(ctx, g);
  const ir::UOp sink = g.Finish();
  UOPD_TRY(ir::Verify(ctx, sink, ir::Level::kTensor));
  schedule::Options options;
  options.limits = schedule::KernelLimits::Of(target);
  UOPD_ASSIGN(const schedule::Schedule schedule, schedule::MakeSchedule(ctx, sink, options));
  std::vector<HostArray> slots;
  for (const schedule::Slot& slot : schedule.slots) {
    const ir::Dims dims(slot.dims.begin(), slot.dims.end());
    std::vector<double> values(static_cast<size_t>(ir::Product(dims)));
    for (size_t i = 0; i < values.size(); ++i)
      values[i] = static_cast<double>((i * 7919 + slots.size() * 5) % 13 % 5) - 2;
    slots.push_back(HostArray::Of(slot.dtype, dims, values));
  }
  const auto lower_and_run = [&](ir::UOpContext& kernel, ir::UOp body, tests::Memory& memory,
                                 const Variables& variables) -> absl::Status {
    UOPD_ASSIGN(const codegen::LoweredKernel lowered, codegen::Lower(kernel, body, target, {}));
    out.blocks.push_back(lowered.launch.grid[0].Evaluate({}));
    if (run != nullptr) return run(kernel, lowered, memory, variables);
    return tests::RunLowered(kernel, lowered, target, memory, variables);
  };
  UOPD_ASSIGN(out.got, RunSchedule(schedule, slots, {}, lower_and_run));
  UOPD_ASSIGN(out.want, TensorInterpreter(ctx).Run(sink, slots));
  return out;
}

std::string Difference(const BlocksRun& run, double tolerance) {
  for (size_t i = 0; i < run.want.size(); ++i) {
    const std::vector<double> a = run.got[i].ToDoubles(), b = run.want[i].ToDoubles();
    for (size_t at = 0; at < b.size(); ++at) {
      if (!(std::abs(a[at] - b[at]) <= tolerance * std::abs(b[at])))
        return Cat("slot ", i, " element ", at, " is ", a[at], ", not ", b[at]);
    }
  }
  return "";
}

}  // namespace uopd::test
