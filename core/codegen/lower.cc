// SPDX-License-Identifier: MIT
// Lower: the table of passes. It runs again where a row found that other opts are better.
#include <algorithm>

#include "core/codegen/pass_table.h"
#include "core/ir/verify/spec.h"

namespace uopd::codegen {
namespace {

using ir::UOp;
using ir::UOpContext;

absl::StatusOr<KernelWork> Run(UOpContext& ctx, UOp sink, const Target& target,
                               const Options& options) {
  KernelWork work{ctx, target, options, sink};
  UOPD_TRY(RunPasses(work));
  work.kernel.linear = work.root;
  if (!work.one_more) return work;
  std::vector<Opt> opts = work.kernel.opts;
  opts.push_back(*work.one_more);
  Options more = options;
  more.opts = &opts;
  if (auto better = Run(ctx, sink, target, more); better.ok()) {
    work.kernel = std::move(better->kernel);
  } else {
    UOPD_TRY(ctx.CheckInterrupt());
  }
  return work;
}

}  // namespace

absl::StatusOr<LoweredKernel> Lower(UOpContext& ctx, UOp sink, const Target& target,
                                    const Options& options) {
  UOPD_TRY(ir::VerifyBorder(ctx, sink, ir::Level::kKernel, "the kernel given to codegen"));
  UOPD_ASSIGN(KernelWork work, Run(ctx, sink, target, options));
  if (!work.misses_tiles) return std::move(work.kernel);
  Target rows = target;
  std::erase_if(rows.matrix_instructions, [](const MatrixInstruction& i) { return i.m > 1; });
  UOPD_ASSIGN(const KernelWork again, Run(ctx, sink, rows, options));
  return again.kernel;
}

}  // namespace uopd::codegen
