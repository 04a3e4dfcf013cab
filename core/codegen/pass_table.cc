// SPDX-License-Identifier: MIT
#include "core/codegen/pass_table.h"

#include <algorithm>
#include <optional>

#include "core/base/config/debug_flags.h"
#include "core/base/text.h"
#include "core/codegen/attention/online/masked_keys.h"
#include "core/codegen/choose_opts.h"
#include "core/codegen/cpu/passes/order_loops.h"
#include "core/codegen/cpu/passes/transpose_loads.h"
#include "core/codegen/cpu/passes/wmma_tiles.h"
#include "core/codegen/gpu/passes/barriers.h"
#include "core/codegen/gpu/passes/group_mma.h"
#include "core/codegen/gpu/passes/join_accesses.h"
#include "core/codegen/gpu/passes/pipeline/hoist_shared.h"
#include "core/codegen/gpu/passes/split_registers.h"
#include "core/codegen/gpu/passes/threads/map_threads.h"
#include "core/codegen/launch_facts.h"
#include "core/codegen/linearise/linearise.h"
#include "core/codegen/opts/opt_plan.h"
#include "core/codegen/passes/join_maxima.h"
#include "core/codegen/passes/numbers/decompose.h"
#include "core/codegen/passes/polls.h"
#include "core/codegen/passes/prepare_stages.h"
#include "core/codegen/passes/stages.h"
#include "core/codegen/passes/sum_chunks.h"
#include "core/codegen/passes/unroll.h"
#include "core/codegen/passes/vectors/vectorise.h"
#include "core/codegen/trials.h"
#include "core/ir/graph.h"
#include "core/ir/verify/spec.h"
#include "core/rewrite/rewrite_trace.h"
#include "core/rules/simplify.h"

namespace uopd::codegen {
namespace {

using ir::UOp;
using Work = KernelWork;
using enum Machines;
using enum Pass::Form;

// Takes what a pass made as the new form of the kernel.
absl::Status Made(Work& work, UOp root) {
  work.root = root;
  return absl::OkStatus();
}
absl::Status Made(Work& work, const absl::StatusOr<UOp>& root) {
  UOPD_ASSIGN(work.root, root);
  return absl::OkStatus();
}

absl::Status RunMapThreads(Work& w) {
  int64_t persistent = 0;
  for (const Opt& opt : w.kernel.opts)
    persistent = opt.kind == OptKind::kPersist ? opt.amount : persistent;
  UOPD_ASSIGN(const ThreadMap map, MapThreads(w.ctx, w.root, w.target, persistent));
  w.root = map.sink;
  w.kernel.launch.block[0] = map.threads;
  UOPD_ASSIGN(w.kernel.launch.grid[0], LaunchSize::Of(map.blocks, w.kernel.variables));
  return absl::OkStatus();
}

absl::Status RunOrderLoops(Work& w) {
  // PACK and BLOCK have an order in mind.
  if (w.options.noopt || w.Has(OptKind::kPack) || w.Has(OptKind::kBlock)) return absl::OkStatus();
  return Made(w, OrderLoops(w.ctx, w.root, static_cast<double>(w.target.OwnCacheBytes())));
}

absl::Status RunSimplify(Work& w) {
  return Made(w, rules::Simplify(w.ctx, w.root, w.options.fast_math));
}

absl::Status RunDecomposeTranscendentals(Work& w) {
  // The weights of attention by matrix instructions are rounded to small floats, beside sums of at
  // least 1.
  const bool flushes = w.Has(OptKind::kOnline) && w.Has(OptKind::kTensorCore);
  return Made(w, DecomposeTranscendentals(w.ctx, w.root, w.target, flushes));
}

absl::Status RunChunkSums(Work& w) {
  // Rows in key tiles (ONLINE) have short sums.
  if (w.Has(OptKind::kTensorCore) || w.Has(OptKind::kOnline)) return absl::OkStatus();
  return Made(w, ChunkLongSums(w.ctx, w.root, w.target));
}

absl::Status RunJoinAccesses(Work& w) {
  // Rows in key tiles fill all registers with their states. Stores of more than a register need
  // neighbouring ones, so some values would be kept in memory.
  const int64_t most = w.Has(OptKind::kOnline) ? kRegisterBytes : kWidestAccessBytes;
  return Made(w, JoinAccesses(w.ctx, w.root, most));
}

absl::Status RunLinearise(Work& w) {
  return Made(w, Linearise(w.ctx, w.root, w.target, w.kernel.variables, w.kernel.launch.grid[0]));
}

absl::Status RunJoinMaxima(Work& w) {
  return w.target.has_max ? Made(w, JoinMaxima(w.ctx, w.root)) : absl::OkStatus();
}

absl::Status RunPipeline(Work& w) {
  for (const Opt& opt : w.kernel.opts) {
    if (opt.kind != OptKind::kPipeline) continue;
    w.way.parts = opt.amount;
    w.root = Pipeline(w.ctx, w.root, w.way);
  }
  return absl::OkStatus();
}

// UNIMPLEMENTED if some line has a dtype that the target does not support.
absl::Status CheckDtypes(Work& w) {
  for (UOp u : w.root.srcs()) {
    if (u.dtype() == ir::Dtype::Void || u.dtype() == ir::Dtype::Index) continue;
    if (w.target.dtypes.Has(ir::NumberOf(u.dtype()))) continue;
    return absl::UnimplementedError(Cat("devices of kind ", w.target.kind, " have no ",
                                        ir::Name(u.dtype()), ", which ", ir::Name(u.op()),
                                        " needs"));
  }
  return absl::OkStatus();
}

absl::Status RunPolls(Work& w) {
  w.kernel.polls = w.thread_ns > kLongNs || (w.long_launch && w.Has(OptKind::kPersist));
  if (w.kernel.polls) w.root = AddPolls(w.ctx, w.root, w.target);
  UOPD_TRY(w.ctx.CheckInterrupt());
  if (!w.long_launch) return absl::OkStatus();
  w.kernel.polls = true;
  return Made(w, PollAtStart(w.ctx, w.root));
}

absl::Status RunVerify(Work& w) {
  absl::Status found = ir::Verify(w.ctx, w.root, ir::Level::kLinear);
  if (found.ok()) return found;
  UOPD_TRY(w.ctx.CheckInterrupt());
  return WithFrame(absl::InternalError(StatusText(found)),
                   Cat("verifying the lines of kernel ", w.kernel.name));
}

constexpr Pass kPasses[] = {
    {"prepare_stages", kAll, kKernel, kKernel, "codegen/passes/prepare_stages.cc",
     "moves sums of staged values into the loop that stages them; gives the other loops different "
     "RANGEs",
     [](Work& w) { return Made(w, PrepareStages(w.ctx, w.root)); }},
    {"choose_opts", kAll, kKernel, kKernel, "codegen/choose_opts.cc",
     "takes the opts of the caller, or those of the heuristic (`opts/choose/`, `cpu/heuristic/`, "
     "`gpu/heuristic/`, a file for each "
     "step), for a draft with a small register tile ([drafts](opts.md#drafts)); names the kernel",
     ChooseOpts},
    {"check_tiles", kCpus, kKernel, kKernel, "codegen/trials.cc",
     "tries whether the rows of opts for whole tiles become tiles; if not, chooses opts without "
     "such instructions",
     CheckTiles},
    {"apply_opts", kAll, kKernel, kKernel, "codegen/opts/opt_plan.cc",
     "checks each opt, then splits the ranges, gates the padding, packs operands and keeps partial "
     "sums, in one rebuild",
     [](Work& w) { return Made(w, ApplyOpts(w.ctx, w.root, w.target, w.kernel.opts)); }},
    {"trim_keys", kAll, kKernel, kKernel, "codegen/attention/online/trim_keys.cc",
     "ends the loop over key tiles of ONLINE where a mask hides the rest "
     "([attention](attention.md))",
     [](Work& w) { return Made(w, TrimKeys(w.ctx, w.root)); }},
    {"check_blocks", kGpus, kKernel, kKernel, "codegen/trials.cc",
     "tries whether a long launch would have very many short blocks, which get PERSIST",
     CheckBlocks},
    {"map_threads", kGpus, kKernel, kKernel, "codegen/gpu/passes/threads/map_threads.cc",
     "gives GLOBAL and LOCAL ranges to the blocks and threads of a launch ([GPUs](gpu.md))",
     RunMapThreads},
    {"order_loops", kCpus, kKernel, kKernel, "codegen/cpu/passes/order_loops.cc",
     "chooses the order of output loops that moves the fewest bytes", RunOrderLoops},
    {"simplify", kAll, kKernel, kKernel, "rules/simplify.cc",
     "applies the [rules](../rules.md); with fast math also float identities", RunSimplify},
    {"widen_small_floats", kAll, kKernel, kKernel, "codegen/passes/numbers/small_floats.cc",
     "turns f16, bf16, fp8 and tf32 values into f32 that is rounded after each op",
     [](Work& w) { return Made(w, WidenSmallFloats(w.ctx, w.root, w.target.dtypes)); }},
    {"decompose_transcendentals", kAll, kKernel, kKernel,
     "codegen/passes/numbers/transcendental.cc",
     "replaces EXP2, EXP, LOG2, LOG, SIN, COS and POW by polynomials; EXP2 and EXP stay, with a "
     "tag, if the target scales by powers of two in one instruction",
     RunDecomposeTranscendentals},
    {"chunk_sums", kAll, kKernel, kKernel, "codegen/passes/sum_chunks.cc",
     "cuts long sums of floats into chunks that have sums of their own "
     "([numbers](numbers.md#long-sums))",
     RunChunkSums},
    {"lower_stages", kAll, kKernel, kKernel, "codegen/passes/stages.cc",
     "replaces each STAGE by an array and the loop that fills it",
     [](Work& w) { return Made(w, LowerStages(w.ctx, w.root)); }},
    {"unroll", kAll, kKernel, kKernel, "codegen/passes/unroll.cc",
     "replaces UPCAST and UNROLL ranges by copies",
     [](Work& w) { return Made(w, Unroll(w.ctx, w.root, w.target)); }},
    {"simplify_copies", kAll, kKernel, kKernel, "rules/simplify.cc",
     "applies the rules to the copies", RunSimplify},
    {"split_registers", kGpus, kKernel, kKernel, "codegen/gpu/passes/split_registers.cc",
     "turns an array of a thread whose indices are constants into registers",
     [](Work& w) { return Made(w, SplitRegisters(w.ctx, w.root)); }},
    {"vectorise", kAll, kKernel, kKernel, "codegen/passes/vectors/vectorise.cc",
     "replaces VECTOR ranges by values of shape (n,); chooses the accumulators of running sums "
     "(`stride.cc`, `scans.cc`); combines the lanes of vectors of partial results, several vectors "
     "at a time (`join_lanes.cc`)",
     [](Work& w) { return Made(w, Vectorise(w.ctx, w.root)); }},
    {"join_accesses", kGpus, kKernel, kKernel, "codegen/gpu/passes/join_accesses.cc",
     "in kernels with matrix instructions of warps: stores neighbouring results of a thread "
     "together, and loads what their values need likewise; with ONLINE, whose states fill the "
     "registers, up to 4 bytes only",
     RunJoinAccesses},
    {"transpose_loads", kCpus, kKernel, kKernel, "codegen/cpu/passes/transpose_loads.cc",
     "loads squares of gathered vectors as vectors and transposes them in registers",
     [](Work& w) { return Made(w, TransposeLoads(w.ctx, w.root)); }},
    {"wmma_tiles", kCpus, kKernel, kKernel, "codegen/cpu/passes/wmma_tiles.cc",
     "turns grids of 16 rows and columns into products of whole tiles, if the target multiplies "
     "tiles ([matrix instructions](matrix_instructions.md))",
     [](Work& w) { return Made(w, MakeWmmaTiles(w.ctx, w.root, w.target)); }},
    {"decompose_alu", kAll, kKernel, kKernel, "codegen/passes/numbers/decompose_alu.cc",
     "expresses integer division, shifts, MAX, THREEFRY, bool arithmetic and WMMAs without an "
     "instruction by simpler ops",
     [](Work& w) { return Made(w, DecomposeAlu(w.ctx, w.root, w.target, w.options.fast_math)); }},
    {"linearise", kAll, kKernel, kLines, "codegen/linearise/linearise.cc",
     "creates loops, accumulators and arrays, and puts the lines in order: in a reduction, each "
     "load right before its first use; each store right after its value, unless the kernel loads "
     "what it stores",
     RunLinearise},
    {"join_maxima", kAll, kLines, kLines, "codegen/passes/join_maxima.cc",
     "takes the maxima of neighbouring pairs first, where MAX is one instruction", RunJoinMaxima},
    {"group_mmas", kGpus, kLines, kLines, "codegen/gpu/passes/group_mma.cc",
     "gives the matrix instructions of groups of warps their accumulators, and the lines that "
     "begin them and wait for them",
     [](Work& w) { return Made(w, MakeGroupMmas(w.ctx, w.root)); }},
    {"choose_copies", kGpus, kLines, kLines, "codegen/trials.cc",
     "tries for PIPELINE whether boxes are copied at once, and whether warps copy alone",
     ChooseCopies},
    {"pipeline", kGpus, kLines, kLines, "codegen/gpu/passes/pipeline/pipeline.cc",
     "for PIPELINE: makes copies to shared memory run while the threads compute", RunPipeline},
    {"lower_index", kAll, kLines, kLines, "codegen/linearise/lower_index.cc",
     "replaces the index dtype by i64, or by i32 in vectors",
     [](Work& w) { return Made(w, LowerIndex(w.ctx, w.root, w.target)); }},
    {"hoist_shared", kGpus, kLines, kLines, "codegen/gpu/passes/pipeline/hoist_shared.cc",
     "moves what several roles of a block need in front of the first of them",
     [](Work& w) { return Made(w, HoistShared(w.ctx, w.root)); }},
    {"check_dtypes", kAll, kLines, kLines, "codegen/pass_table.cc",
     "refuses a kernel with a dtype that the target lacks", CheckDtypes},
    {"barriers", kGpus, kLines, kLines, "codegen/gpu/passes/barriers.cc",
     "makes the threads of a block wait for each other where they share memory",
     [](Work& w) {
       return Made(w, AddBarriers(w.ctx, w.root, w.kernel.launch.block[0].Evaluate({})));
     }},
    {"describe_launch", kAll, kLines, kLines, "codegen/launch_facts.cc",
     "notes what the launch needs, and estimates the time that it takes", DescribeLaunch},
    {"polls", kAll, kLines, kLines, "codegen/passes/polls.cc",
     "makes a long kernel check its stop word now and then", RunPolls},
    {"verify_lines", kAll, kLines, kLines, "ir/verify/spec.cc",
     "checks the lines against `Level::kLinear`", RunVerify},
};

// A pass that made a node without a shape is wrong. That is an error of this kernel; without this,
// the next pass that asks for the shape would end the process.
absl::Status CheckShapes(Work& work, std::string_view pass) {
  for (UOp u : ir::Toposort(work.ctx, work.root)) {
    if (const auto shape = work.ctx.TryShapeOf(u); !shape.ok()) {
      return WithFrame(absl::InternalError(StatusText(shape.status())),
                       Cat("after the pass ", pass));
    }
  }
  return absl::OkStatus();
}

Pass::Form FormOf(UOp root) { return root.Is(ir::Op::LINEAR) ? kLines : kKernel; }

std::string_view Name(Pass::Form form) { return form == kLines ? "lines" : "kernel"; }

}  // namespace

bool KernelWork::Has(OptKind kind) const {
  return std::ranges::find(kernel.opts, kind, &Opt::kind) != kernel.opts.end();
}

std::span<const Pass> Passes() { return kPasses; }

absl::Status RunPass(const Pass& pass, KernelWork& work) {
  if (!pass.IsFor(work.target)) return absl::OkStatus();
  if (FormOf(work.root) != pass.before)
    return Invalid(Cat(pass.name, " takes a ", pass.before == kLines ? "LINEAR" : "SINK"));
  work.notes.clear();
  UOPD_TRY(pass.run(work));
  for (const std::string& note : work.notes) rewrite::TraceNote(note);
  // An interrupted pass returns a graph that the next pass may not accept.
  UOPD_TRY(work.ctx.CheckInterrupt());
  // Shapes of lanes come up in two passes. Others are checked when somebody looks for a wrong pass.
  const bool changes_shapes = pass.name == "vectorise" || pass.before != pass.after;
  if (changes_shapes || Debug().spec >= 2) UOPD_TRY(CheckShapes(work, pass.name));
  UOPD_CHECK(FormOf(work.root) == pass.after);
  return absl::OkStatus();
}

absl::StatusOr<std::span<const Pass>> PassesUpTo(std::string_view name) {
  const std::span<const Pass> all = kPasses;
  const auto last = std::ranges::find(all, name, &Pass::name);
  if (last == all.end()) return absl::NotFoundError(Cat("no pass is called ", name));
  return all.first(static_cast<size_t>(last - all.begin()) + 1);
}

absl::Status RunPasses(KernelWork& work, std::span<const Pass> passes) {
  const auto name = [&] { return Cat("codegen ", work.kernel.name); };
  rewrite::TraceGroup of_kernel(name());
  for (const Pass& pass : passes) {
    const rewrite::TraceGroup of_pass(std::string(pass.name));
    const absl::Status status = RunPass(pass, work);
    of_kernel.Rename(name());  // a row may have named the kernel
    UOPD_TRY(status);
  }
  return absl::OkStatus();
}

std::string PassesDocs() {
  std::string out = "| pass | machines | form | file | what it does |\n|---|---|---|---|---|\n";
  for (const Pass& pass : kPasses) {
    const std::string form = pass.before == pass.after
                                 ? std::string(Name(pass.before))
                                 : Cat(Name(pass.before), " → ", Name(pass.after));
    Append(out, "| `", pass.name, "` | ", Name(pass.machines), " | ", form, " | `", pass.file,
           "` | ", pass.doc, " |\n");
  }
  return out;
}

}  // namespace uopd::codegen
