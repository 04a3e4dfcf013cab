// SPDX-License-Identifier: MIT
#include "core/codegen/launch_facts.h"

#include <algorithm>

#include "core/base/text.h"
#include "core/codegen/pass_table.h"
#include "core/codegen/passes/polls.h"
#include "core/ir/shape.h"
#include "core/ir/shared_array.h"
#include "core/ir/tensor_map.h"

namespace uopd::codegen {
namespace {

using ir::Op;
using ir::UOp;

// Whether a role waits for the block.
bool WaitsInRole(UOp linear) {
  bool in_role = false, waits = false;
  for (UOp u : linear.srcs()) {
    in_role |= u.Is(Op::ROLE);
    waits |= in_role && u.Is({Op::BARRIER, Op::SHARED_FENCE});
  }
  return waits;
}

// The threads of a block, where its roles have threads besides those that compute; else 0.
int64_t MaybeThreads(UOp linear) {
  for (UOp u : linear.srcs()) {
    if (u.Is(Op::ROLE)) return u.src(0).src(0).const_int();
  }
  return 0;
}

}  // namespace

absl::Status ChooseCopies(KernelWork& work) {
  PipelineWay& way = work.way;
  way = {.own = work.target.async_copies,
         .bulk = work.target.bulk_copies,
         .warp_lanes = work.target.warp_lanes,
         .most_threads = work.target.max_block_threads};
  if (!way.bulk || !work.Has(OptKind::kPipeline)) return absl::OkStatus();
  for (const Opt& opt : work.kernel.opts) {
    if (opt.kind == OptKind::kPipeline) way.producers = opt.warps * work.target.warp_lanes;
  }
  UOPD_ASSIGN(const std::span<const Pass> before, PassesUpTo("choose_copies"));
  UOPD_ASSIGN(const std::span<const Pass> with_copies, PassesUpTo("barriers"));
  while (way.bulk) {
    KernelWork trial = work;
    UOPD_TRY(RunPasses(trial, with_copies.subspan(before.size())));
    if (ir::TensorMapsOf(trial.root).empty()) break;
    const bool fits =
        ProgramNs(work.ctx, trial.root, work.target) <= kLongNs &&
        MachineOf(work.target).shared_bytes(work.ctx, trial.root) <= work.target.shared_bytes;
    const bool waits = WaitsInRole(trial.root);
    if (fits && !waits) break;
    work.notes.push_back(
        Cat(way.producers > 0 ? "warps do not copy alone: "
                              : "the threads copy, not one of them boxes: ",
            fits ? "a role would wait for the whole block"
                 : "the kernel would poll in its loops, or not fit in shared memory"));
    way.bulk = fits || way.producers > 0;
    way.producers = 0;
  }
  return absl::OkStatus();
}

absl::Status DescribeLaunch(KernelWork& work) {
  const Target& target = work.target;
  const Machine& machine = MachineOf(target);
  LoweredKernel& out = work.kernel;
  LaunchGeometry& launch = out.launch;
  work.thread_ns = ProgramNs(work.ctx, work.root, target);
  if (const int64_t threads = MaybeThreads(work.root); threads > 0) launch.block[0] = threads;
  launch.shared_bytes = machine.shared_bytes(work.ctx, work.root);
  launch.maps = ir::TensorMapsOf(work.root);
  out.estimate_ns = machine.launch_ns(work.thread_ns, launch.grid[0].Evaluate(work.largest),
                                      launch.block[0].Evaluate({}), target);
  // Matrix instructions do far more than the estimate of a line says. Their kernels reach an eighth
  // of a chip's rate at least.
  const Speeds& speeds = target.speeds;
  const double unit_flops_of_a_ns =
      2 * std::max(speeds.warp_products, speeds.warpgroup_products) * speeds.clock_ghz;
  const double with_instruction_ns = 8 * out.flops / (target.units * unit_flops_of_a_ns);
  work.long_launch =
      out.estimate_ns > machine.long_launch_ns &&
      (!work.Has(OptKind::kTensorCore) || with_instruction_ns > machine.long_launch_ns);
  return absl::OkStatus();
}

}  // namespace uopd::codegen
