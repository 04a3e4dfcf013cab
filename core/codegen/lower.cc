// SPDX-License-Identifier: MIT
// The passes of codegen, in order.
#include <map>

#include "core/base/digest.h"
#include "core/base/text.h"
#include "core/codegen/codegen.h"
#include "core/codegen/estimate.h"
#include "core/codegen/opt/apply.h"
#include "core/codegen/opt/heuristic/choose_online.h"
#include "core/codegen/opt/heuristic/draft_opts.h"
#include "core/codegen/opt/heuristic/heuristic.h"
#include "core/codegen/opt/online/skipped_blocks.h"
#include "core/codegen/opt/opt_plan.h"
#include "core/codegen/opt/order_loops.h"
#include "core/codegen/opt/pipeline_form.h"
#include "core/codegen/opt/prepare_stages.h"
#include "core/codegen/opt/sum_blocks.h"
#include "core/codegen/passes/blocks/barriers.h"
#include "core/codegen/passes/blocks/group_mma.h"
#include "core/codegen/passes/blocks/hoist_shared.h"
#include "core/codegen/passes/blocks/join_accesses.h"
#include "core/codegen/passes/blocks/map_threads.h"
#include "core/codegen/passes/blocks/pipeline.h"
#include "core/codegen/passes/blocks/split_registers.h"
#include "core/codegen/passes/decompose.h"
#include "core/codegen/passes/join_maxima.h"
#include "core/codegen/passes/linearise/linearise.h"
#include "core/codegen/passes/polls.h"
#include "core/codegen/passes/stages.h"
#include "core/codegen/passes/transpose_loads.h"
#include "core/codegen/passes/unroll.h"
#include "core/codegen/passes/vectorise.h"
#include "core/codegen/passes/wmma_blocks.h"
#include "core/ir/graph.h"
#include "core/ir/shape.h"
#include "core/ir/shared_array.h"
#include "core/ir/tensor_map.h"
#include "core/ir/verify/spec.h"
#include "core/rewrite/rewrite_trace.h"
#include "core/rules/simplify.h"

namespace uopd::codegen {
namespace {

using ir::Op;
using ir::UOp;
using ir::UOpContext;

constexpr int64_t kPlainThreads = 256;        // of a block of a kernel without opts, at most
constexpr int64_t kThreadsOfAUnit = 2048;     // that a processor runs at the same time, about
constexpr double kMostUnitFlopsOfANs = 8000;  // of a processor with matrix instructions

// The buffers of the kernel, by slot. A slot without a PARAM keeps dtype void.
absl::StatusOr<std::vector<BufferUse>> Buffers(UOpContext& ctx, UOp sink) {
  std::vector<BufferUse> out;
  for (UOp u : ir::Toposort(ctx, sink)) {
    if (u.Is(Op::PARAM)) {
      const auto slot = static_cast<size_t>(u.slot());
      if (slot >= out.size()) out.resize(slot + 1);
      if (out[slot].dtype != ir::Dtype::Void)
        return absl::InvalidArgumentError(Cat("kernel declares slot ", slot, " twice"));
      out[slot].dtype = u.dtype();
      out[slot].elements = ir::Product(ir::MaxDims(ctx, *ctx.ShapeOf(u)));
    } else if (u.Is({Op::LOAD, Op::STORE})) {
      const UOp base = u.src(0).src(0);
      if (!base.Is(Op::PARAM)) continue;
      BufferUse& use = out[static_cast<size_t>(base.slot())];
      (u.Is(Op::LOAD) ? use.read : use.written) = true;
    }
  }
  return out;
}

// UNIMPLEMENTED if some line has a dtype that the target does not support.
absl::Status CheckDtypes(UOp linear, const Target& target) {
  for (UOp u : linear.srcs()) {
    if (u.dtype() == ir::Dtype::Void || u.dtype() == ir::Dtype::Index) continue;
    if (target.dtypes.Has(ir::NumberOf(u.dtype()))) continue;
    return absl::UnimplementedError(Cat("devices of kind ", target.kind, " have no ",
                                        ir::Name(u.dtype()), ", which ", ir::Name(u.op()),
                                        " needs"));
  }
  return absl::OkStatus();
}

// "e" (elementwise) or "r" (has a reduction), the sizes of the axes and a hash of the kernel and
// its opts: r_512_512_512_1a2b3c4d. A C identifier.
std::string KernelName(const UOpContext& ctx, UOp sink, std::span<const Opt> opts) {
  bool reduces = false;
  std::string sizes;
  for (UOp r : Axes(ctx, sink)) {
    reduces |= r.axis_type() == ir::AxisType::REDUCE;
    Append(sizes, "_", r.src(0).Is(Op::CONST) ? Cat(r.src(0).const_int()) : std::string("n"));
  }
  // Sources are hashed as positions in this walk, not as node ids: ids depend on the other nodes of
  // the context.
  absl::flat_hash_map<uint32_t, uint64_t> position;
  uint64_t h = 0;
  for (UOp u : ir::Toposort(ctx, sink)) {
    h = Mix(h, uint64_t(ir::Info(u.op()).wire) << 8 | uint64_t(u.dtype()));
    const ir::ArgSchema schema = Info(u.op()).arg;
    const bool data = schema != ir::ArgSchema::None && schema != ir::ArgSchema::Const &&
                      schema != ir::ArgSchema::Int;
    if (!data) {
      h = Mix(h, u.arg().bits);
    } else if (u.arg().bits != 0) {
      for (int64_t v : u.ints()) h = Mix(h, static_cast<uint64_t>(v));
      for (char c : u.text()) h = Mix(h, static_cast<uint8_t>(c));
    }
    for (UOp s : u.srcs()) h = Mix(h, position.at(s.id()));
    const uint64_t at = position.size();
    position[u.id()] = at;
  }
  for (const Opt& o : opts)
    h = Mix(Mix(h, uint64_t(o.kind) << 32 | uint64_t(uint32_t(o.axis))),
            static_cast<uint64_t>(o.amount));
  std::string digits;
  for (int i = 0; i < 8; ++i) digits += "0123456789abcdef"[h >> (4 * i) & 15];
  if (sizes.size() > 60) sizes = Cat("_", Axes(ctx, sink).size(), "d");
  return Cat(reduces ? "r" : "e", sizes, "_", digits);
}

// The bytes of all arrays that the threads of a launch, or of a block, share.
int64_t SharedArrayBytes(UOpContext& ctx, UOp linear, const Target& target) {
  int64_t elements = 0;
  ir::SharedLayout layout;
  for (UOp u : linear.srcs()) {
    if (!ir::IsShared(u)) continue;
    layout.Place(ctx, u);
    elements += (*ctx.ShapeOf(u))[0].const_int();
  }
  return target.blocks ? layout.bytes() : elements * ir::kSharedElement;
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

// The threads of a block, where its roles have threads besides those that compute; else 0.
int64_t MaybeThreads(UOp linear) {
  for (UOp u : linear.srcs()) {
    if (u.Is(Op::ROLE)) return u.src(0).src(0).const_int();
  }
  return 0;
}

// The maximum of each variable of the kernel, in launch order.
std::vector<int64_t> LargestValues(UOpContext& ctx, UOp sink) {
  std::vector<int64_t> out;
  for (const UOp v : ir::Variables(ctx, sink)) {
    out.push_back(static_cast<int64_t>(ctx.BoundsOf(v).max));
  }
  return out;
}

// Whether the opts have the rows of whole tiles (ChooseMatrixTile) and no tile was made of them.
bool MissedTiles(const LoweredKernel& kernel, const Target& target) {
  if (target.blocks) return false;  // warps have no WMMA_BLOCKs
  int64_t rows = 0;
  for (const MatrixInstruction& i : target.matrix_instructions)
    rows = i.m > 1 ? std::max<int64_t>(rows, i.m) : rows;
  const auto has = [&](auto&& wanted) { return std::ranges::any_of(kernel.applied, wanted); };
  return rows > 0 && has([](const Opt& o) { return o.kind == OptKind::kTensorCore; }) &&
         has([&](const Opt& o) { return o.kind == OptKind::kUpcast && o.amount >= rows; }) &&
         std::ranges::none_of(kernel.linear.srcs(), [](UOp u) { return u.Is(Op::WMMA_BLOCK); });
}

// Without opts a thread is still not alone in its block: the last output axis that can has up to 256.
void AddThreads(UOpContext& ctx, UOp sink, const Target& target, std::vector<Opt>& applied) {
  OptPlan plan(ctx, sink, target);
  for (const Opt& opt : applied) {
    if (!plan.Add(opt).ok()) return;
  }
  for (size_t axis = plan.axes(); axis-- > 0;) {
    for (int64_t n = std::min<int64_t>(kPlainThreads, target.max_block_threads); n > 1; n /= 2) {
      if (!plan.Add({OptKind::kLocal, static_cast<int>(axis), n}).ok()) continue;
      applied = plan.opts();
      return;
    }
  }
}

// A pass that made a node without a shape is wrong. That is an error of this kernel; without this, the next pass that asks for the
// shape would end the process.
absl::Status CheckShapes(UOpContext& ctx, std::span<const UOp> nodes, std::string_view pass) {
  for (UOp u : nodes) {
    if (const auto shape = ctx.TryShapeOf(u); !shape.ok()) {
      return WithFrame(absl::InternalError(StatusText(shape.status())),
                       Cat("after the pass ", pass));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<LoweredKernel> LowerFor(UOpContext& ctx, UOp sink, const Target& target,
                                       const Options& options) {
  UOPD_TRY(ir::VerifyBorder(ctx, sink, ir::Level::kKernel, "the kernel given to codegen"));
  sink = PrepareStages(ctx, sink);
  UOPD_TRY(ctx.CheckInterrupt());
  LoweredKernel out;
  UOPD_ASSIGN(out.buffers, Buffers(ctx, sink));
  for (UOp v : ir::Variables(ctx, sink)) out.variables.emplace_back(v.text());
  const Estimate estimate = EstimateKernel(ctx, sink);
  out.flops = estimate.flops;
  out.bytes = estimate.bytes;
  out.dtype = estimate.dtype;
  if (options.opts != nullptr) {
    out.applied = *options.opts;
  } else if (!options.noopt) {
    out.applied = HeuristicOpts(ctx, sink, target);
    if (options.draft) out.applied = DraftOpts(ctx, sink, target, out.applied);
  } else if (target.blocks) {
    // The scheduler makes rows of any length where ONLINE needs no array for them.
    if (const auto online = ChooseOnline(ctx, sink, target)) out.applied = {online->opt};
    AddThreads(ctx, sink, target, out.applied);
  }
  UOPD_TRY(ctx.CheckInterrupt());
  out.name = KernelName(ctx, sink, out.applied);
  const rewrite::TraceGroup group(Cat("codegen ", out.name));

  // Called after every pass: an interrupted pass returns a graph that the next pass may not accept.
  const auto check = [&] { return ctx.CheckInterrupt(); };
  UOPD_ASSIGN(UOp kernel, ApplyOpts(ctx, sink, target, out.applied));
  kernel = TrimBlocks(ctx, kernel);
  UOPD_TRY(check());
  if (target.blocks) {
    int64_t persistent = 0;
    for (const Opt& o : out.applied)
      persistent = o.kind == OptKind::kPersist ? o.amount : persistent;
    UOPD_ASSIGN(const ThreadMap map, MapThreads(ctx, kernel, target, persistent));
    kernel = map.sink;
    out.launch.block[0] = map.threads;
    UOPD_ASSIGN(out.launch.grid[0], LaunchSize::Of(map.blocks, out.variables));
  } else if (!options.noopt) {
    const bool ordered = std::any_of(out.applied.begin(), out.applied.end(), [](const Opt& o) {
      return o.kind == OptKind::kPack || o.kind == OptKind::kBlock;
    });
    if (!ordered) kernel = OrderLoops(ctx, kernel, static_cast<double>(target.OwnCacheBytes()));
  }
  UOPD_TRY(check());
  kernel = rules::Simplify(ctx, kernel, options.fast_math);
  UOPD_TRY(check());
  kernel = WidenSmallFloats(ctx, kernel, target.dtypes);
  UOPD_TRY(check());
  // The weights of attention by matrix instructions are rounded to small floats, beside sums of at least 1.
  const auto has = [&](OptKind kind) {
    return std::ranges::find(out.applied, kind, &Opt::kind) != out.applied.end();
  };
  kernel = DecomposeTranscendentals(ctx, kernel, target,
                                    has(OptKind::kOnline) && has(OptKind::kTensorCore));
  UOPD_TRY(check());
  // Rows in blocks (ONLINE) have short sums.
  if (!has(OptKind::kTensorCore) && !has(OptKind::kOnline))
    kernel = BlockLongSums(ctx, kernel, target);
  kernel = LowerStages(ctx, kernel);
  UOPD_TRY(check());
  UOPD_ASSIGN(kernel, Unroll(ctx, kernel, target));
  kernel = rules::Simplify(ctx, kernel, options.fast_math);
  if (target.blocks) kernel = SplitRegisters(ctx, kernel);
  UOPD_TRY(check());
  UOPD_ASSIGN(kernel, Vectorise(ctx, kernel));
  UOPD_TRY(CheckShapes(ctx, ir::Toposort(ctx, kernel), "Vectorise"));
  if (target.blocks) {
    // Rows in blocks fill all registers with their states. Stores of more than a register need neighbouring ones, so
    // some values would be kept in memory.
    kernel = JoinAccesses(ctx, kernel, has(OptKind::kOnline) ? kRegisterBytes : kWidestAccessBytes);
  } else {
    kernel = TransposeLoads(ctx, kernel);
    UOPD_TRY(check());
    kernel = MakeWmmaBlocks(ctx, kernel, target);
  }
  UOPD_TRY(check());
  kernel = DecomposeAlu(ctx, kernel, target, options.fast_math);
  UOPD_TRY(check());
  UOPD_ASSIGN(UOp linear, Linearise(ctx, kernel, target, out.variables, out.launch.grid[0]));
  UOPD_TRY(CheckShapes(ctx, linear.srcs(), "Linearise"));
  if (target.has_max) linear = JoinMaxima(ctx, linear);
  UOPD_ASSIGN(linear, MakeGroupMmas(ctx, linear));
  const UOp unordered = linear;
  PipelineWay way{.own = target.async_copies,
                  .warp_lanes = target.warp_lanes,
                  .most_threads = target.max_block_threads};
  const auto order = [&]() -> absl::StatusOr<UOp> {
    UOp lines = unordered;
    for (const Opt& o : out.applied) {
      if (o.kind != OptKind::kPipeline) continue;
      way.parts = PipelineForm::Of(o.amount).parts;
      if (!way.bulk) way.producers = 0;
      lines = Pipeline(ctx, lines, way);
    }
    lines = HoistShared(ctx, LowerIndex(ctx, lines, target));
    UOPD_TRY(check());
    UOPD_TRY(CheckDtypes(lines, target));
    if (!target.blocks) return lines;
    return AddBarriers(ctx, lines, out.launch.block[0].Evaluate({}));
  };
  way.bulk = target.bulk_copies;
  for (const Opt& o : out.applied) {
    if (o.kind == OptKind::kPipeline)
      way.producers = PipelineForm::Of(o.amount).producer_warps * target.warp_lanes;
  }
  UOPD_ASSIGN(linear, order());
  double ns = ProgramNs(ctx, linear, target);
  // Threads of a role cannot wait for the block. Copies of boxes need room for their barriers, and loops around them do not
  // poll.
  while (way.bulk && !ir::TensorMapsOf(linear).empty()) {
    const bool fits = ns <= kLongNs && SharedArrayBytes(ctx, linear, target) <= target.shared_bytes;
    if (fits && !WaitsInRole(linear)) break;
    way.bulk = fits || way.producers > 0;
    way.producers = 0;
    UOPD_ASSIGN(linear, order());
    ns = ProgramNs(ctx, linear, target);
  }
  if (const int64_t threads = MaybeThreads(linear); threads > 0) out.launch.block[0] = threads;
  out.launch.shared_bytes = SharedArrayBytes(ctx, linear, target);
  out.launch.maps = ir::TensorMapsOf(linear);
  const int64_t grid_x = out.launch.grid[0].Evaluate(LargestValues(ctx, sink));
  out.estimate_ns = LaunchNs(ns, grid_x, out.launch.block[0].Evaluate({}), target);
  // Matrix instructions do far more than the estimate of a line says. Their kernels reach an eighth of a chip's rate at least.
  const double with_instruction_ns = 8 * out.flops / (target.units * kMostUnitFlopsOfANs);
  const bool is_long_launch = target.blocks && out.estimate_ns > kLongLaunchNs &&
                              (!has(OptKind::kTensorCore) || with_instruction_ns > kLongLaunchNs);
  if (is_long_launch && ns < kShortBlockNs && !has(OptKind::kPersist)) {
    std::vector<Opt> opts = out.applied;
    const int64_t threads = std::max<int64_t>(1, out.launch.block[0].Evaluate({}));
    opts.push_back(
        {OptKind::kPersist, 0, target.units * std::max<int64_t>(1, kThreadsOfAUnit / threads)});
    Options persistent = options;
    persistent.opts = &opts;
    if (auto kernel = LowerFor(ctx, sink, target, persistent); kernel.ok()) return kernel;
    UOPD_TRY(check());
  }
  out.polls = ns > kLongNs || (is_long_launch && has(OptKind::kPersist));
  out.linear = out.polls ? AddPolls(ctx, linear, target) : linear;
  UOPD_TRY(check());
  if (is_long_launch) {
    out.polls = true;
    out.linear = PollAtStart(ctx, out.linear);
  }
  if (absl::Status s = ir::Verify(ctx, out.linear, ir::Level::kLinear); !s.ok()) {
    UOPD_TRY(check());
    return WithFrame(absl::InternalError(StatusText(s)),
                     Cat("verifying the lines of kernel ", out.name));
  }
  return out;
}

}  // namespace

absl::StatusOr<LoweredKernel> Lower(UOpContext& ctx, UOp sink, const Target& target,
                                    const Options& options) {
  UOPD_ASSIGN(LoweredKernel kernel, LowerFor(ctx, sink, target, options));
  if (options.opts != nullptr || !MissedTiles(kernel, target)) return kernel;
  // The sums of so many rows do not fit in vector registers.
  Target rows = target;
  std::erase_if(rows.matrix_instructions, [](const MatrixInstruction& i) { return i.m > 1; });
  return LowerFor(ctx, sink, rows, options);
}

}  // namespace uopd::codegen
