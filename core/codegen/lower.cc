// SPDX-License-Identifier: MIT
// Lower: runs the table of passes.
#include "core/codegen/pass_table.h"
#include "core/ir/verify/spec.h"

namespace uopd::codegen {

absl::StatusOr<LoweredKernel> Lower(ir::UOpContext& ctx, ir::UOp sink, const Target& target,
                                    const Options& options) {
  UOPD_TRY(ir::VerifyBorder(ctx, sink, ir::Level::kKernel, "the kernel given to codegen"));
  KernelWork work{ctx, target, options, sink};
  UOPD_TRY(RunPasses(work));
  work.kernel.linear = work.root;
  return std::move(work.kernel);
}

}  // namespace uopd::codegen
