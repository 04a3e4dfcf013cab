// SPDX-License-Identifier: MIT
// Lower: the table of passes, and the two kernels for which it runs again with other opts.
#include <algorithm>
#include <optional>

#include "core/base/text.h"
#include "core/codegen/pass_table.h"
#include "core/codegen/passes/polls.h"
#include "core/ir/verify/spec.h"

namespace uopd::codegen {
namespace {

using ir::Op;
using ir::UOp;
using ir::UOpContext;

constexpr int64_t kThreadsOfAUnit = 2048;  // that a processor runs at the same time, about

// Whether the opts have the rows of whole tiles (ChooseMatrixTile) and no tile was made of them.
bool MissedTiles(const LoweredKernel& kernel, const Target& target) {
  int64_t rows = 0;
  for (const MatrixInstruction& i : target.matrix_instructions)
    rows = i.m > 1 && !i.of_warp() ? std::max<int64_t>(rows, i.m) : rows;
  const auto has = [&](auto&& wanted) { return std::ranges::any_of(kernel.applied, wanted); };
  return rows > 0 && has([](const Opt& o) { return o.kind == OptKind::kTensorCore; }) &&
         has([&](const Opt& o) { return o.kind == OptKind::kUpcast && o.amount >= rows; }) &&
         std::ranges::none_of(kernel.linear.srcs(), [](UOp u) { return u.Is(Op::WMMA_BLOCK); });
}

// The PERSIST of a launch of so many short blocks that their polls would take the bus for longer than they run (passes/polls.h).
std::optional<Opt> MaybePersist(const KernelWork& work) {
  if (!work.long_launch || work.thread_ns >= kShortBlockNs || work.Has(OptKind::kPersist))
    return std::nullopt;
  const int64_t threads = std::max<int64_t>(1, work.kernel.launch.block[0].Evaluate({}));
  return Opt{OptKind::kPersist, 0,
             work.target.units * std::max<int64_t>(1, kThreadsOfAUnit / threads)};
}

absl::StatusOr<LoweredKernel> LowerFor(UOpContext& ctx, UOp sink, const Target& target,
                                       const Options& options) {
  KernelWork work{ctx, target, options, sink};
  UOPD_TRY(RunPasses(work));
  if (const std::optional<Opt> persist = MaybePersist(work)) {
    std::vector<Opt> opts = work.kernel.applied;
    opts.push_back(*persist);
    Options persistent = options;
    persistent.opts = &opts;
    if (auto kernel = LowerFor(ctx, sink, target, persistent); kernel.ok()) return kernel;
    UOPD_TRY(ctx.CheckInterrupt());
  }
  work.kernel.linear = work.root;
  return std::move(work.kernel);
}

}  // namespace

absl::StatusOr<LoweredKernel> Lower(UOpContext& ctx, UOp sink, const Target& target,
                                    const Options& options) {
  UOPD_TRY(ir::VerifyBorder(ctx, sink, ir::Level::kKernel, "the kernel given to codegen"));
  UOPD_ASSIGN(LoweredKernel kernel, LowerFor(ctx, sink, target, options));
  if (options.opts != nullptr || !MissedTiles(kernel, target)) return kernel;
  // The sums of so many rows do not fit in vector registers.
  Target rows = target;
  std::erase_if(rows.matrix_instructions, [](const MatrixInstruction& i) { return i.m > 1; });
  return LowerFor(ctx, sink, rows, options);
}

}  // namespace uopd::codegen
