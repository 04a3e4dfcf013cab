// SPDX-License-Identifier: MIT
#include "core/tools/passes.h"

#include <charconv>
#include <limits>

#include "core/base/status.h"
#include "core/base/text.h"
#include "core/codegen/opt/apply.h"
#include "core/codegen/opt/heuristic/heuristic.h"
#include "core/codegen/opt/order_loops.h"
#include "core/codegen/opt/parse_opts.h"
#include "core/codegen/opt/prepare_stages.h"
#include "core/codegen/opt/sum_blocks.h"
#include "core/codegen/passes/blocks/barriers.h"
#include "core/codegen/passes/blocks/map_threads.h"
#include "core/codegen/passes/decompose.h"
#include "core/codegen/passes/linearise/linearise.h"
#include "core/codegen/passes/polls.h"
#include "core/codegen/passes/stages.h"
#include "core/codegen/passes/transpose_loads.h"
#include "core/codegen/passes/unroll.h"
#include "core/codegen/passes/vectorise.h"
#include "core/codegen/passes/wmma_blocks.h"
#include "core/ir/graph.h"
#include "core/ir/verify/spec.h"
#include "core/rewrite/rewriter.h"
#include "core/rules/rules.h"
#include "core/rules/simplify.h"
#include "core/schedule/kept/kept.h"
#include "core/schedule/multi/multi_device.h"
#include "core/schedule/prepare/round_products.h"
#include "core/schedule/prepare/softmax_exp.h"
#include "core/schedule/prepare/split_softmax.h"
#include "core/schedule/schedule.h"

namespace uopd::tools {
namespace {

using ir::UOp;
using ir::UOpContext;
using Result = absl::StatusOr<UOp>;

Result Rules(UOpContext& ctx, UOp root, std::string_view value) {
  for (const rewrite::RuleSet* set : rules::AllRuleSets()) {
    if (set->name() == value) return rewrite::Rewrite(ctx, root, *set);
  }
  return Invalid(Cat("rule set (", value, ") is unknown"));
}

Result Verify(UOpContext& ctx, UOp root, std::string_view value) {
  ir::Level level;
  if (value == "tensor")
    level = ir::Level::kTensor;
  else if (value == "kernel")
    level = ir::Level::kKernel;
  else if (value == "linear")
    level = ir::Level::kLinear;
  else
    return Invalid(Cat("level (", value, ") is none of tensor, kernel, linear"));
  UOPD_TRY(ir::Verify(ctx, root, level));
  return root;
}

Result Unbind(UOpContext& ctx, UOp root, std::string_view) {
  UOPD_ASSIGN(const ir::Unbound out, ir::Unbind(ctx, root));
  return out.graph;
}

Result Opts(UOpContext& ctx, UOp root, std::string_view value) {
  UOPD_TRY(ir::Verify(ctx, root, ir::Level::kKernel));
  UOPD_ASSIGN(const std::vector<codegen::Opt> opts, codegen::ParseOpts(value));
  return codegen::ApplyOpts(ctx, root, DefaultTarget(), opts);
}

Result Heuristic(UOpContext& ctx, UOp root, std::string_view) {
  UOPD_TRY(ir::Verify(ctx, root, ir::Level::kKernel));
  return codegen::ApplyOpts(ctx, root, DefaultTarget(),
                            codegen::HeuristicOpts(ctx, root, DefaultTarget()));
}

Result BlockOpts(UOpContext& ctx, UOp root, std::string_view value) {
  UOPD_TRY(ir::Verify(ctx, root, ir::Level::kKernel));
  UOPD_ASSIGN(const std::vector<codegen::Opt> opts, codegen::ParseOpts(value));
  return codegen::ApplyOpts(ctx, root, BlocksTarget(), opts);
}

Result MapThreads(UOpContext& ctx, UOp root, std::string_view) {
  UOPD_ASSIGN(const codegen::ThreadMap map, codegen::MapThreads(ctx, root, BlocksTarget()));
  return map.sink;
}

Result AddBarriers(UOpContext& ctx, UOp root, std::string_view value) {
  if (!root.Is(ir::Op::LINEAR)) return Invalid("barriers takes a LINEAR");
  int64_t threads = 2;
  std::from_chars(value.data(), value.data() + value.size(), threads);
  return codegen::AddBarriers(ctx, root, threads);
}

Result PrepareStages(UOpContext& ctx, UOp root, std::string_view) {
  return codegen::PrepareStages(ctx, root);
}
Result OrderLoops(UOpContext& ctx, UOp root, std::string_view) {
  return codegen::OrderLoops(ctx, root, 1 << 20);
}
Result Simplify(UOpContext& ctx, UOp root, std::string_view) { return rules::Simplify(ctx, root); }
Result WidenSmallFloats(UOpContext& ctx, UOp root, std::string_view) {
  return codegen::WidenSmallFloats(ctx, root, {});
}
Result DecomposeTranscendentals(UOpContext& ctx, UOp root, std::string_view) {
  return codegen::DecomposeTranscendentals(ctx, root, DefaultTarget());
}
Result BlockSums(UOpContext& ctx, UOp root, std::string_view) {
  return codegen::BlockLongSums(ctx, root, DefaultTarget());
}
Result LowerStages(UOpContext& ctx, UOp root, std::string_view) {
  return codegen::LowerStages(ctx, root);
}
Result Unroll(UOpContext& ctx, UOp root, std::string_view) {
  return codegen::Unroll(ctx, root, DefaultTarget());
}
Result Vectorise(UOpContext& ctx, UOp root, std::string_view) {
  return codegen::Vectorise(ctx, root);
}
Result TransposeLoads(UOpContext& ctx, UOp root, std::string_view) {
  return codegen::TransposeLoads(ctx, root);
}
Result DecomposeAlu(UOpContext& ctx, UOp root, std::string_view value) {
  return codegen::DecomposeAlu(ctx, root, DefaultTarget(), value == "fast_math");
}
Result MakeWmmaBlocks(UOpContext& ctx, UOp root, std::string_view) {
  using enum DtypeNumber;
  Target target = DefaultTarget();
  target.matrix_instructions.push_back({"amx_bf16", 16, 16, 32, BF16, BF16, F32});
  target.matrix_instructions.push_back({"amx_f16", 16, 16, 32, F16, F16, F32});
  target.matrix_instructions.push_back({"amx_int8", 16, 16, 64, U8, I8, I32});
  return codegen::MakeWmmaBlocks(ctx, root, target);
}
Result Linearise(UOpContext& ctx, UOp root, std::string_view) {
  std::vector<std::string> variables;
  for (const UOp v : ir::Variables(ctx, root)) variables.emplace_back(v.text());
  codegen::LaunchSize grid_x;
  return codegen::Linearise(ctx, root, DefaultTarget(), variables, grid_x);
}
Result LowerIndex(UOpContext& ctx, UOp root, std::string_view) {
  if (!root.Is(ir::Op::LINEAR)) return Invalid("lower_index takes a LINEAR");
  return codegen::LowerIndex(ctx, root, Target());
}

Result AddPolls(UOpContext& ctx, UOp root, std::string_view) {
  if (!root.Is(ir::Op::LINEAR)) return Invalid("polls takes a LINEAR");
  const Target target = DefaultTarget();
  if (codegen::ProgramNs(ctx, root, target) <= codegen::kLongNs) return root;
  return codegen::AddPolls(ctx, root, target);
}

Result ResolveMulti(UOpContext& ctx, UOp root, std::string_view value) {
  UOPD_TRY(ir::Verify(ctx, root, ir::Level::kTensor));
  const schedule::Options defaults;
  schedule::MultiDeviceOptions options = {defaults.default_device, defaults.ring_threshold};
  std::from_chars(value.data(), value.data() + value.size(), options.ring_threshold);
  return schedule::ResolveMulti(ctx, ir::Toposort(ctx, root), options);
}

// `value`: the stable slots, as 1+2+5.
absl::StatusOr<schedule::KeptSplit> Split(UOpContext& ctx, UOp root, std::string_view value) {
  UOPD_TRY(ir::Verify(ctx, root, ir::Level::kTensor));
  std::vector<bool> stable;
  while (!value.empty()) {
    const size_t end = std::min(value.find('+'), value.size());
    size_t slot = 0;
    const auto read = std::from_chars(value.data(), value.data() + end, slot);
    if (read.ptr != value.data() + end || slot > 1'000'000)
      return Invalid(Cat("slots (", value, ") are not numbers with + between them"));
    if (stable.size() <= slot) stable.resize(slot + 1);
    stable[slot] = true;
    value.remove_prefix(std::min(end + 1, value.size()));
  }
  UOPD_ASSIGN(const auto split, schedule::SplitKept(ctx, root, stable, DefaultTarget(), {}));
  if (!split) return Invalid("nothing is worth keeping");
  return *split;
}
Result KeptMain(UOpContext& ctx, UOp root, std::string_view value) {
  UOPD_ASSIGN(const schedule::KeptSplit split, Split(ctx, root, value));
  return split.main;
}
Result KeptPrologue(UOpContext& ctx, UOp root, std::string_view value) {
  UOPD_ASSIGN(const schedule::KeptSplit split, Split(ctx, root, value));
  return split.prologue;
}
Result RoundProducts(UOpContext& ctx, UOp root, std::string_view value) {
  UOPD_TRY(ir::Verify(ctx, root, ir::Level::kTensor));
  UOPD_ASSIGN(const schedule::Options options, RoundingOptions(value));
  return schedule::RoundProducts(ctx, ir::Toposort(ctx, root), options);
}

Result LowerSoftmaxExponentials(UOpContext& ctx, UOp root, std::string_view) {
  return schedule::LowerSoftmaxExponentials(ctx, ir::Toposort(ctx, root));
}
Result SplitSoftmaxes(UOpContext& ctx, UOp root, std::string_view value) {
  UOPD_TRY(ir::Verify(ctx, root, ir::Level::kTensor));
  schedule::Options options;
  if (!value.empty() && !absl::SimpleAtoi(std::string(value), &options.stage_bytes))
    return absl::InvalidArgumentError("split_softmax takes the bytes that may be staged");
  return schedule::SplitSoftmaxes(ctx, ir::Toposort(ctx, root), options);
}

constexpr Pass kPasses[] = {
    {"rules", "SET", "rewrite with one rule set", Rules},
    {"verify", "tensor|kernel|linear", "check the graph, change nothing", Verify},
    {"unbind", "", "bound variables become variables", Unbind},
    {"kept_main", "SLOT+SLOT...", "the graph without what depends on these slots alone", KeptMain},
    {"kept_prologue", "SLOT+SLOT...", "what depends on these slots alone", KeptPrologue},
    {"multi", "[ring threshold]",
     "resolve sharded values: pieces on several devices, and the transfers between them",
     ResolveMulti},
    {"round_products", "bf16|f16|tf32", "round the operands of f32 products", RoundProducts},
    {"softmax_exp", "", "EXP in softmaxes as EXP2", LowerSoftmaxExponentials},
    {"split_softmax", "[bytes]", "divide attention over more keys than can be staged into blocks",
     SplitSoftmaxes},
    {"simplify", "", "the symbolic rules", Simplify},
    {"prepare_stages", "", "rewrite the loops of a kernel with STAGEs, before opts", PrepareStages},
    {"opts", "OPT+OPT", "apply opts to a kernel", Opts},
    {"heuristic", "", "apply the opts that the heuristic chooses", Heuristic},
    {"block_opts", "OPT+OPT", "apply opts to a kernel for a target with blocks", BlockOpts},
    {"map_threads", "", "GLOBAL and LOCAL ranges become the numbers of blocks and threads",
     MapThreads},
    {"order_loops", "", "order output loops so that they move the fewest bytes", OrderLoops},
    {"widen_small_floats", "", "compute floats below 32 bits in f32", WidenSmallFloats},
    {"decompose_transcendentals", "", "EXP2, EXP, LOG2, LOG, SIN, COS, POW as polynomials",
     DecomposeTranscendentals},
    {"block_sums", "", "long sums of floats become sums of the sums of blocks", BlockSums},
    {"lower_stages", "", "STAGE becomes an array and the loop that fills it", LowerStages},
    {"unroll", "", "UPCAST and UNROLL ranges become copies", Unroll},
    {"vectorise", "", "VECTOR ranges become values of shape (n,)", Vectorise},
    {"transpose_loads", "", "load squares of gathered vectors as vectors", TransposeLoads},
    {"decompose_alu", "[fast_math]", "integer division, shifts, MAX, THREEFRY", DecomposeAlu},
    {"wmma_blocks", "", "grids of 16 rows and columns become products of whole tiles",
     MakeWmmaBlocks},
    {"linearise", "", "a kernel becomes lines in order", Linearise},
    {"lower_index", "", "index dtype becomes i64 or i32", LowerIndex},
    {"barriers", "[threads]", "threads of a block wait for each other", AddBarriers},
    {"polls", "", "a long program checks its stop word", AddPolls},
};

}  // namespace

Target DefaultTarget() {
  using enum DtypeNumber;
  Target out;
  const int lanes = out.vector_bytes / 4;
  out.matrix_instructions = {{"avx512_bf16", 1, lanes, 2, BF16, BF16, F32},
                             {"avx512_vnni", 1, lanes, 4, U8, I8, I32}};
  return out;
}

Target BlocksTarget() {
  Target out;
  out.kind = "blocks";
  out.blocks = out.shuffles = out.narrow_index = true;
  out.warp_lanes = 32;
  out.vector_bytes = 16;
  out.vector_lanes = 16;
  out.vector_registers = 255;
  std::fill_n(out.max_grid, 3, int64_t{std::numeric_limits<int32_t>::max()});
  std::fill_n(out.max_block, 3, int64_t{1024});
  out.max_block_threads = 1024;
  out.shared_bytes = 48 << 10;
  return out;
}

std::span<const Pass> Passes() { return kPasses; }

absl::StatusOr<schedule::Options> RoundingOptions(std::string_view dtype) {
  schedule::Options options;
  for (const DtypeNumber known : {DtypeNumber::BF16, DtypeNumber::F16, DtypeNumber::TF32}) {
    if (Name(known) != dtype) continue;
    options.allowed_products = {known};
    options.limits.product_dtypes = {known};
    return options;
  }
  return Invalid(Cat("dtype (", dtype, ") is none of bf16, f16, tf32"));
}

}  // namespace uopd::tools
