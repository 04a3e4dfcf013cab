// SPDX-License-Identifier: MIT
#include "core/codegen/trials.h"

#include <algorithm>
#include <cmath>

#include "core/base/target/machine_facts.h"
#include "core/base/text.h"
#include "core/codegen/choose_opts.h"
#include "core/codegen/launch_facts.h"
#include "core/codegen/opts/opt_plan.h"
#include "core/codegen/pass_table.h"
#include "core/codegen/passes/polls.h"
#include "core/ir/graph.h"
#include "core/ir/tensor_map.h"
#include "core/rewrite/rewrite_trace.h"

namespace uopd::codegen {
namespace {

using ir::Op;
using ir::UOp;

// What the rows behind `row` make of the kernel, up to the row `last`.
absl::StatusOr<KernelWork> Try(const KernelWork& work, std::string_view row,
                               std::string_view last) {
  UOPD_ASSIGN(const std::span<const Pass> before, PassesUpTo(row));
  UOPD_ASSIGN(const std::span<const Pass> all, PassesUpTo(last));
  const rewrite::TraceGroup group("trial");
  KernelWork trial = work;
  for (const Pass& pass : all.subspan(before.size())) {
    const rewrite::TraceGroup of_pass(std::string(pass.name));
    UOPD_TRY(RunPass(pass, trial));
  }
  return trial;
}

bool MultipliesTiles(const MatrixInstruction& instruction) { return instruction.m > 1; }

// Whether the opts give a matrix instruction as many rows as a tile has.
bool WantsTiles(const KernelWork& work) {
  int64_t rows = 0;
  for (const MatrixInstruction& i : work.target.matrix_instructions)
    rows = MultipliesTiles(i) ? std::max<int64_t>(rows, i.m) : rows;
  return rows > 0 && work.Has(OptKind::kTensorCore) &&
         std::ranges::any_of(work.kernel.opts, [&](const Opt& o) {
           return o.kind == OptKind::kUpcast && o.amount >= rows;
         });
}

// The launch as it is before threads are mapped: not fewer blocks, nor fewer threads in a block,
// than it has in the end.
struct MostThreads {
  double blocks = 1;
  int64_t of_a_block = 1;

  explicit MostThreads(const KernelWork& work) {
    for (UOp u : ir::Toposort(work.ctx, work.root)) {
      if (!u.Is(Op::RANGE)) continue;
      if (u.axis_type() == ir::AxisType::GLOBAL)
        blocks *= static_cast<double>(work.ctx.BoundsOf(u.src(0)).max);
      if (u.axis_type() == ir::AxisType::LOCAL) of_a_block *= u.src(0).const_int();
    }
    for (const Opt& opt : work.kernel.opts) of_a_block += opt.warps * work.target.warp_lanes;
  }
};

// Whether the launch can be long although its blocks are short.
bool MayHaveShortBlocks(const KernelWork& work) {
  const MostThreads most(work);
  if (most.blocks > static_cast<double>(work.target.max_grid[0])) return true;
  return IsLongLaunch(work, MachineOf(work.target)
                                .launch_ns(kShortBlockNs, static_cast<int64_t>(most.blocks),
                                           most.of_a_block, work.target));
}

// Whether a role waits for the block.
bool WaitsInRole(UOp linear) {
  bool in_role = false, waits = false;
  for (UOp u : linear.srcs()) {
    in_role |= u.Is(Op::ROLE);
    waits |= in_role && u.Is({Op::BARRIER, Op::SHARED_FENCE});
  }
  return waits;
}

}  // namespace

absl::Status CheckTiles(KernelWork& work) {
  if (work.options.opts != nullptr || !WantsTiles(work)) return absl::OkStatus();
  UOPD_ASSIGN(const KernelWork trial, Try(work, "check_tiles", "wmma_tiles"));
  const bool has_tile = std::ranges::any_of(ir::Toposort(trial.ctx, trial.root),
                                            [](UOp u) { return u.Is(Op::WMMA_BLOCK); });
  if (has_tile) {
    work.notes.emplace_back("the rows become whole tiles");
    return absl::OkStatus();
  }
  std::erase_if(work.target.matrix_instructions, MultipliesTiles);
  std::vector<Opt> opts = OptsOf(work);
  UOPD_TRY(work.ctx.CheckInterrupt());
  UseOpts(work, std::move(opts));
  work.notes.push_back(
      Cat("no whole tile can be made of the rows, and their sums do not fit in vector registers: "
          "without such instructions ",
          Text(work.kernel.opts)));
  return absl::OkStatus();
}

absl::Status CheckBlocks(KernelWork& work) {
  if (work.Has(OptKind::kPersist) || !MayHaveShortBlocks(work)) return absl::OkStatus();
  UOPD_ASSIGN(const KernelWork trial, Try(work, "check_blocks", "describe_launch"));
  if (!trial.long_launch || trial.thread_ns >= kShortBlockNs) return absl::OkStatus();
  const int64_t threads = std::max<int64_t>(1, trial.kernel.launch.block[0].Evaluate({}));
  const int64_t blocks = work.target.units * std::max<int64_t>(1, kUnitThreads / threads);
  std::vector<Opt> opts = work.kernel.opts;
  opts.push_back({OptKind::kPersist, 0, blocks});
  const absl::Status applies = ApplyOpts(work.ctx, work.given, work.target, opts).status();
  UOPD_TRY(work.ctx.CheckInterrupt());
  work.notes.push_back(Cat("the launch is estimated to take ",
                           std::llround(trial.kernel.estimate_ns / 1e6), " ms, in blocks of ",
                           std::llround(trial.thread_ns),
                           " ns that would poll for longer than they run: ",
                           applies.ok() ? Text(opts.back()) : StatusText(applies)));
  if (applies.ok()) UseOpts(work, std::move(opts));
  return absl::OkStatus();
}

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
  while (way.bulk) {
    UOPD_ASSIGN(const KernelWork trial, Try(work, "choose_copies", "barriers"));
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

}  // namespace uopd::codegen
