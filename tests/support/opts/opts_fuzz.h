// SPDX-License-Identifier: MIT
// Kernels under the heuristic and under random legal opts, against the interpreter: whatever is
// legal must not change the result beyond reassociation.
#pragma once
#include <functional>
#include <map>
#include <random>
#include <set>

#include "core/base/target/matrix_instructions.h"
#include "core/codegen/opts/kinds/pipeline.h"
#include "core/codegen/opts/opt_plan.h"
#include "core/codegen/opts/opt_row.h"
#include "core/codegen/passes/prepare_stages.h"
#include "core/ir/graph.h"
#include "gtest/gtest.h"
#include "tests/support/lowered_run.h"
#include "tests/support/opts/opts_cases.h"

namespace uopd::tests {

// Whether some value of the kernel varies along two VECTOR ranges.
inline bool VectorsMeet(const ir::UOpContext& ctx, ir::UOp kernel) {
  std::map<uint32_t, std::set<uint32_t>> along;
  for (ir::UOp u : ir::Toposort(ctx, kernel)) {
    std::set<uint32_t>& mine = along[u.id()];
    for (ir::UOp s : u.srcs()) mine.insert(along[s.id()].begin(), along[s.id()].end());
    if (u.Is(ir::Op::RANGE) && u.axis_type() == ir::AxisType::VECTOR) mine.insert(u.id());
    if (mine.size() > 1 && !u.Is({ir::Op::END, ir::Op::SINK, ir::Op::GROUP})) return true;
    for (ir::UOp r : u.closed()) mine.erase(r.id());
  }
  return false;
}

inline codegen::Opt RandomPipeline(size_t axis, std::mt19937_64& random) {
  const int64_t parts = 2 + static_cast<int64_t>(random() % 3);
  const int64_t warps = codegen::kCopyingWarps[random() % codegen::kCopyingWarps.size()];
  return {codegen::OptKind::kPipeline, static_cast<int>(axis), parts, warps};
}

// The first opts of a list that copies pieces of the operands of a product through a ring of parts,
// as far as they apply: a matrix instruction, threads, the steps of a sum, parts and warps that
// copy alone.
inline void AddRing(codegen::OptPlan& plan, ir::UOpContext& ctx, ir::UOp sink, const Target& target,
                    size_t axes, std::mt19937_64& random) {
  using codegen::OptKind;
  size_t sum = random() % axes;
  const auto add = [&](OptKind kind, size_t axis, int64_t amount) {
    return plan.Add({kind, static_cast<int>(axis), amount}).ok();
  };
  // Any of those that fit: instructions of one warp come first, those that read boxes after them.
  std::vector<codegen::Opt> fitting;
  for (int axis = 0; axis < static_cast<int>(axes); ++axis) {
    for (int64_t number = 1; number <= std::ssize(target.matrix_instructions); ++number) {
      const codegen::Opt opt{OptKind::kTensorCore, axis, number};
      if (codegen::OptPlan(ctx, sink, target).Add(opt).ok()) fitting.push_back(opt);
    }
  }
  if (!fitting.empty()) {
    const codegen::Opt& opt = fitting[random() % fitting.size()];
    sum = static_cast<size_t>(opt.axis);
    add(opt.kind, sum, opt.amount);
  }
  if (random() % 2 == 0) add(OptKind::kLocal, random() % axes, 2);
  if (random() % 2 == 0) add(OptKind::kUpcast, random() % axes, 2);
  if (random() % 4 != 0) add(OptKind::kUnroll, sum, int64_t{1} << (1 + random() % 2));
  add(OptKind::kBlock, sum, 1);
  (void)plan.Add(RandomPipeline(sum, random));
}

// An opt of the row, about one of so many axes.
inline codegen::Opt RandomOpt(const codegen::OptRow& row, size_t axes, std::mt19937_64& random) {
  using enum codegen::Operand::Names;
  constexpr int64_t kAmounts[] = {2, 3, 4, 5, 8, 16, 0};
  const auto number = [&](const codegen::Operand& operand) -> int64_t {
    if (operand.names == kNothing) return 0;
    if (operand.names == kPart || operand.names == kNumber)
      return kAmounts[random() % std::size(kAmounts)];
    if (operand.names == kInstruction) return static_cast<int64_t>(random() % 2);
    return static_cast<int64_t>(random() % axes);
  };
  if (row.kind == codegen::OptKind::kPipeline) return RandomPipeline(random() % axes, random);
  return {row.kind, static_cast<int>(number(row.axis)), number(row.amount)};
}

// The opts that say which thread computes what, on targets with blocks.
inline constexpr codegen::OptKind kThreadOpts[] = {
    codegen::OptKind::kLocal,  codegen::OptKind::kGroup,  codegen::OptKind::kGroupTop,
    codegen::OptKind::kUnroll, codegen::OptKind::kUpcast, codegen::OptKind::kPadTo};

// `begin` and up to 8 further opts that apply together.
inline std::vector<codegen::Opt> RandomOpts(ir::UOpContext& ctx, ir::UOp sink, const Target& target,
                                            std::mt19937_64& random,
                                            std::span<const codegen::Opt> begin) {
  constexpr int64_t kAmounts[] = {2, 3, 4, 5, 8, 16, 0};
  size_t axes = codegen::Axes(ctx, sink).size();
  codegen::OptPlan plan(ctx, sink, target);
  const bool try_online = begin.empty() && random() % 2 == 0;
  // ONLINE comes before all others, and adds axes.
  for (size_t axis = 0; try_online && axis < axes; ++axis) {
    const codegen::Opt online{codegen::OptKind::kOnline, static_cast<int>(axis),
                              kAmounts[random() % 5]};
    if (!plan.Add(online).ok()) continue;
    axes += 3;
    break;
  }
  for (const codegen::Opt& opt : begin) EXPECT_TRUE(plan.Add(opt).ok()) << Text(opt);
  const bool ring = target.bulk_copies && begin.empty() && random() % 4 != 0;
  // So does MERGE.
  for (int i = target.blocks && !ring && random() % 2 == 0 ? 3 : 0; i > 0; --i)
    (void)plan.Add({codegen::OptKind::kMerge, static_cast<int>(random() % axes),
                    static_cast<int64_t>(random() % axes)});
  if (ring) AddRing(plan, ctx, sink, target, axes, random);
  const int others = ring ? static_cast<int>(random() % 4) : 8;
  // Half of the lists have many threads, in several reductions.
  const bool threads = target.blocks && !ring && random() % 2 == 0;
  std::vector<const codegen::OptRow*> rows;
  for (const codegen::OptRow* row : codegen::OptRows()) {
    if (row->IsFor(target)) rows.push_back(row);
  }
  for (int i = 0; i < others; ++i) {
    const codegen::OptRow& row =
        threads ? codegen::RowOf(kThreadOpts[random() % std::size(kThreadOpts)])
                : *rows[random() % rows.size()];
    if (row.kind == codegen::OptKind::kOnline) continue;
    const codegen::Opt opt = RandomOpt(row, axes, random);
    // Unrolled tiles of many copies are no kernels that anybody wants to wait for.
    if (opt.kind == codegen::OptKind::kUnroll && !begin.empty()) continue;
    const absl::Status added = plan.Add(opt);
    EXPECT_TRUE(added.ok() || added.code() == absl::StatusCode::kInvalidArgument)
        << StatusText(added);
  }
  // Those that did not fit have left nothing.
  const auto made = plan.Apply(), anew = codegen::ApplyOpts(ctx, sink, target, plan.opts());
  EXPECT_TRUE(made.ok() && anew.ok() && *made == *anew);
  EXPECT_FALSE(VectorsMeet(ctx, *made));
  return plan.opts();
}

// Trials 0 and 1 of every kernel take the heuristic's opts, 2 none, the others random ones. Returns
// how many had some.
inline int FuzzOpts(const std::vector<KernelCase>& cases, uint64_t seed, int trials) {
  std::mt19937_64 random(seed);
  Target wide;
  wide.vector_bytes = 64, wide.vector_registers = 32, wide.threads = 4;
  wide.shared_bytes = 4096;
  int tried = 0;
  for (const KernelCase& k : cases) {
    Memory memory;
    for (size_t i = 0; i < k.buffers.size(); ++i)
      memory.push_back(SampleBuffer(k.buffers[i].first, k.buffers[i].second, i + 1, k.tame));
    for (int trial = 0; trial < trials; ++trial) {
      ir::UOpContext ctx;
      const ir::UOp sink = k.make(ctx);
      std::vector<codegen::Opt> opts;
      const auto language = trial % 2 == 0 ? CompiledText::kC : CompiledText::kLlvmIr;
      const bool tiles = trial % 3 != 0 || !k.begin.empty();
      wide.matrix_instructions = tiles ? TileInstructions(language) : DotInstructions(language);
      if (trial > 2)
        opts = RandomOpts(ctx, codegen::PrepareStages(ctx, sink), wide, random, k.begin);
      CheckOptions check;
      check.variables = k.variables, check.tolerance = k.tolerance;
      check.language = language;
      if (trial != 1) check.target = wide;
      if (trial > 2) check.options.opts = &opts;
      check.options.noopt = trial == 2;
      check.options.fast_math = trial % 4 == 0 && k.fast_math;
      std::string text;
      for (const codegen::Opt& o : opts) text += Text(o) + " ";
      EXPECT_EQ(CheckKernel(ctx, sink, memory, check).substr(0, 300), "")
          << k.name << " trial " << trial << ": " << text;
      tried += !opts.empty();
    }
  }
  return tried;
}

// The same for a target with blocks, on the interpreter, which also reports races and what no
// thread stored.
inline int FuzzBlockOpts(const std::vector<KernelCase>& cases, uint64_t seed, int trials) {
  std::mt19937_64 random(seed);
  int tried = 0;
  for (const KernelCase& k : cases) {
    if (!k.begin.empty()) continue;  // opts for a CPU
    Memory memory;
    for (size_t i = 0; i < k.buffers.size(); ++i)
      memory.push_back(SampleBuffer(k.buffers[i].first, k.buffers[i].second, i + 1, k.tame));
    for (int trial = 0; trial < trials; ++trial) {
      ir::UOpContext ctx;
      const ir::UOp sink = k.make(ctx);
      CheckOptions check;
      check.target = BlockTarget(trial % 2 != 0);
      // Warps of 32 and of 64 lanes, with their matrix instructions.
      if (trial % 8 == 5) {
        // Groups of warps that read shared memory: those with few results in a lane first.
        check.target.matrix_instructions = WarpgroupMatrixInstructions();
        std::ranges::reverse(check.target.matrix_instructions);
        check.target.shared_bytes = 227 << 10;
      } else if (trial % 4 == 1) {
        check.target.matrix_instructions = NvidiaMatrixInstructions(89);
      } else if (trial % 4 == 3) {
        check.target.warp_lanes = 64;
        check.target.matrix_loads = check.target.async_copies = false;
        check.target.matrix_instructions = AmdMatrixInstructions("gfx942");
      }
      check.variables = k.variables, check.tolerance = k.tolerance;
      std::vector<codegen::Opt> opts;
      if (trial > 2)
        opts = RandomOpts(ctx, codegen::PrepareStages(ctx, sink), check.target, random, {});
      if (trial > 2) check.options.opts = &opts;
      check.options.noopt = trial == 2;
      std::string text;
      for (const codegen::Opt& o : opts) text += Text(o) + " ";
      EXPECT_EQ(CheckKernel(ctx, sink, memory, check).substr(0, 300), "")
          << k.name << " trial " << trial << ": " << text;
      tried += !opts.empty();
    }
  }
  return tried;
}

// The kernels under the heuristic's opts, without opts, and under `sequences` random lists of opts,
// each for a kernel drawn at random: what a device computes, against the interpreter. `run` runs a
// kernel on the device. Returns the number of kernels that had roles.
using RunBlocks = std::function<absl::Status(ir::UOpContext&, const codegen::LoweredKernel&,
                                             Memory&, const std::map<std::string, int64_t>&)>;
inline int64_t FuzzDeviceOpts(const std::vector<KernelCase>& cases, const Target& target,
                              const RunBlocks& run, uint64_t seed, int64_t sequences) {
  std::mt19937_64 random(seed);
  int failures = 0;
  int64_t roles = 0;
  bool has_roles = false;
  const auto check_kernel = [&](const KernelCase& k, bool noopt, bool is_random) {
    Memory memory;
    for (size_t i = 0; i < k.buffers.size(); ++i)
      memory.push_back(SampleBuffer(k.buffers[i].first, k.buffers[i].second, i + 1, k.tame));
    ir::UOpContext ctx;
    const ir::UOp sink = k.make(ctx);
    CheckOptions check;
    check.target = target;
    check.variables = k.variables, check.tolerance = k.tolerance;
    check.run_blocks = [&](ir::UOpContext& c, const codegen::LoweredKernel& lowered, Memory& m) {
      has_roles =
          std::ranges::any_of(lowered.linear.srcs(), [](ir::UOp u) { return u.Is(ir::Op::ROLE); });
      return run(c, lowered, m, k.variables);
    };
    has_roles = false;
    std::vector<codegen::Opt> opts;
    if (is_random) {
      opts = RandomOpts(ctx, codegen::PrepareStages(ctx, sink), target, random, {});
      if (opts.empty()) return false;
      check.options.opts = &opts;
    }
    check.options.noopt = noopt;
    std::string text;
    for (const codegen::Opt& o : opts) text += Text(o) + " ";
    const std::string wrong = CheckKernel(ctx, sink, memory, check);
    // A dtype that the device does not have is no failure.
    if (wrong.starts_with("lower: UNIMPLEMENTED")) return false;
    roles += has_roles ? 1 : 0;
    EXPECT_EQ(wrong.substr(0, 2000), "") << k.name << (noopt ? " without opts " : " ") << text;
    failures += !wrong.empty();
    return true;
  };
  for (const KernelCase& k : cases) {
    if (!k.begin.empty()) continue;  // opts for a CPU
    check_kernel(k, false, false);
    check_kernel(k, true, false);
  }
  for (int64_t done = 0; done < sequences && failures < 10;) {
    const KernelCase& k = cases[random() % cases.size()];
    if (k.begin.empty()) done += check_kernel(k, false, true);
  }
  return roles;
}

}  // namespace uopd::tests
