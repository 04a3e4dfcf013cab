// SPDX-License-Identifier: MIT
#include "core/codegen/launch_facts.h"

#include "core/codegen/pass_table.h"
#include "core/codegen/passes/polls.h"
#include "core/ir/shape.h"
#include "core/ir/shared_array.h"
#include "core/ir/tensor_map.h"

namespace uopd::codegen {
namespace {

using ir::Op;
using ir::UOp;

// The threads of a block, where its roles have threads besides those that compute; else 0.
int64_t MaybeThreads(UOp linear) {
  for (UOp u : linear.srcs()) {
    if (u.Is(Op::ROLE)) return u.src(0).src(0).const_int();
  }
  return 0;
}

}  // namespace

bool IsLongLaunch(const KernelWork& work, double estimate_ns) {
  const double long_ns = MachineOf(work.target).long_launch_ns;
  // Matrix instructions do far more than the estimate of a line says. Their kernels reach an eighth
  // of a chip's rate at least.
  const Speeds& speeds = work.target.speeds;
  const double unit_flops_of_a_ns =
      2 * std::max(speeds.warp_products, speeds.warpgroup_products) * speeds.clock_ghz;
  const double with_instruction_ns =
      8 * work.kernel.flops / (work.target.units * unit_flops_of_a_ns);
  return estimate_ns > long_ns &&
         (!work.Has(OptKind::kTensorCore) || with_instruction_ns > long_ns);
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
  work.long_launch = IsLongLaunch(work, out.estimate_ns);
  return absl::OkStatus();
}

}  // namespace uopd::codegen
