// SPDX-License-Identifier: MIT
// Attention by matrix instructions of a warp (ONLINE, then TC), against the interpreter, which
// computes whole rows.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

#include "core/base/target/matrix_instructions.h"
#include "core/base/text.h"
#include "core/codegen/attention/warp_rows/row_fragment.h"
#include "core/codegen/opts/opt_plan.h"
#include "core/codegen/passes/prepare_stages.h"
#include "core/ir/graph.h"
#include "core/ir/io/print.h"
#include "core/rules/simplify.h"
#include "gtest/gtest.h"
#include "tests/support/attention_kernel.h"
#include "tests/support/kernel_check.h"
#include "tests/support/lowered_run.h"

namespace uopd {
namespace {

using codegen::Opt;
using codegen::OptKind;
using ir::Dtype;
using ir::Op;
using ir::UOp;
using ir::UOpContext;
using tests::AttentionShape;

struct WarpChip {
  std::vector<MatrixInstruction> instructions;
  int lanes;
  bool matrix_loads;
};

WarpChip Nvidia() { return {NvidiaMatrixInstructions(80), 32, true}; }
WarpChip Amd(const char* processor) {
  const auto instructions = AmdMatrixInstructions(processor);
  return {instructions, static_cast<int>(instructions[0].sum_place.lanes()), false};
}

Target WarpTarget(const WarpChip& chip) {
  Target out = tests::BlockTarget(true);
  out.warp_lanes = chip.lanes;
  out.matrix_instructions = chip.instructions;
  out.matrix_loads = chip.matrix_loads;
  out.shared_bytes = 96 << 10;
  return out;
}

tests::Memory WarpMemory(const AttentionShape& s) {
  const int64_t rows = s.heads * s.queries * s.depth, keys = s.heads / s.group * s.keys * s.depth;
  return {tests::SampleBuffer(s.rounds ? s.dtype : Dtype::F32, rows, 1, true),
          tests::SampleBuffer(s.dtype, rows, 2, true), tests::SampleBuffer(s.dtype, keys, 3, true),
          tests::SampleBuffer(s.dtype, keys, 4, true)};
}

std::vector<double> Decoded(Dtype dtype, const std::vector<uint8_t>& bytes) {
  const auto size = static_cast<size_t>(ir::ByteSize(dtype));
  std::vector<double> out;
  for (size_t at = 0; at < bytes.size(); at += size) {
    uint64_t bits = 0;
    std::memcpy(&bits, bytes.data() + at, size);
    out.push_back(ir::DecodeFloat(dtype, bits));
  }
  return out;
}

// Attention over the first `keys` keys in f64, each row by its definition.
std::vector<double> WarpReference(const AttentionShape& s, int64_t keys,
                                  const tests::Memory& memory) {
  const auto q = Decoded(s.dtype, memory[1]), k = Decoded(s.dtype, memory[2]),
             v = Decoded(s.dtype, memory[3]);
  const auto at = [&](int64_t row, int64_t column) {
    return static_cast<size_t>(row * s.depth + column);
  };
  std::vector<double> out;
  for (int64_t row = 0; row < s.heads * s.queries; ++row) {
    const int64_t first = row / s.queries / s.group * s.keys, query = row % s.queries;
    std::vector<double> scores;
    for (int64_t key = 0; key < keys; ++key) {
      double sum = 0;
      for (int64_t e = 0; e < s.depth; ++e) sum += q[at(row, e)] * k[at(first + key, e)];
      const bool hidden = s.causal && query + s.keys - s.queries < key;
      scores.push_back(hidden ? -INFINITY : sum / std::sqrt(static_cast<double>(s.depth)));
    }
    const double most = *std::ranges::max_element(scores);
    double all = 0;
    for (double& x : scores) all += x = std::exp(x - most);
    for (int64_t d = 0; d < s.depth; ++d) {
      double sum = 0;
      for (int64_t key = 0; key < keys; ++key)
        sum += scores[static_cast<size_t>(key)] * v[at(first + key, d)];
      out.push_back(sum / all);
    }
  }
  return out;
}

// The axis of the maximum of the scores.
int WarpMaximumAxis(UOpContext& ctx, UOp sink) {
  const auto axes = codegen::Axes(ctx, sink);
  for (UOp u : ir::Toposort(ctx, sink)) {
    if (u.Is(Op::REDUCE) && u.reduce_op() == Op::MAX)
      return static_cast<int>(std::ranges::find(axes, u.closed()[0]) - axes.begin());
  }
  return -1;
}

// The opts ONLINE and TC, and `more`; empty: TC does not apply. The last reason is in `why`.
std::vector<Opt> WarpOpts(UOpContext& ctx, UOp kernel, const Target& target, int64_t n,
                          const std::vector<Opt>& more, std::string& why) {
  const UOp sink = codegen::PrepareStages(ctx, kernel);
  codegen::OptPlan plan(ctx, sink, target);
  const int maximum = WarpMaximumAxis(ctx, sink);
  for (int axis = 0; axis < 20; ++axis) {
    plan.Clear();
    const absl::Status online = plan.Add({OptKind::kOnline, maximum, n});
    const absl::Status status = online.ok() ? plan.Add({OptKind::kTensorCore, axis, 0}) : online;
    if (!status.ok()) {
      if (axis < static_cast<int>(plan.axes()) && plan.IsStep(static_cast<size_t>(axis), n))
        why = StatusText(status);
      continue;
    }
    std::vector<Opt> out = plan.opts();
    out.insert(out.end(), more.begin(), more.end());
    return out;
  }
  return {};
}

struct WarpCheck {
  WarpChip chip = Nvidia();
  int64_t n = 32;          // keys of a step
  std::vector<Opt> more;   // after ONLINE and TC
  bool heuristic = false;  // chooses the opts
  int64_t keys = 0;        // of a symbolic number
};

// What is wrong with the kernel; empty: nothing.
std::string CheckWarpRows(const AttentionShape& s, const WarpCheck& check) {
  UOpContext ctx;
  const UOp kernel = tests::AttentionKernel(ctx, s);
  const Target target = WarpTarget(check.chip);
  std::string why;
  const std::vector<Opt> opts = check.heuristic
                                    ? std::vector<Opt>()
                                    : WarpOpts(ctx, kernel, target, check.n, check.more, why);
  if (!check.heuristic && opts.empty()) return "TC does not apply: " + why;
  codegen::Options options;
  options.opts = check.heuristic ? nullptr : &opts;
  const auto lowered = codegen::Lower(ctx, kernel, target, options);
  if (!lowered.ok()) return StatusText(lowered.status());
  const bool uses_tc =
      std::ranges::any_of(lowered->linear.srcs(), [](UOp u) { return u.Is(Op::MMA); });
  if (!uses_tc) return "the kernel has no matrix instruction";
  // A lane of NVIDIA's chips stores two neighbours of 16 bits at once.
  const bool pairs = std::ranges::any_of(lowered->linear.srcs(), [](UOp u) {
    return u.Is(Op::STORE) && u.src(0).src(0).Is(Op::PARAM) && u.src(0).arg().AsInt() == 2;
  });
  if (pairs != (s.rounds && check.chip.matrix_loads)) return "results are not stored in pairs";
  tests::Memory memory = WarpMemory(s);
  std::fill(memory[0].begin(), memory[0].end(), uint8_t{0x11});
  const std::map<std::string, int64_t> variables = {{"keys", check.keys}};
  const auto want = WarpReference(s, s.symbolic ? check.keys : s.keys, memory);
  if (absl::Status ran = tests::RunLowered(ctx, *lowered, target, memory, variables); !ran.ok())
    return StatusText(ran);
  const auto got = Decoded(s.rounds ? s.dtype : Dtype::F32, memory[0]);
  double largest = 0;
  for (double x : want) largest = std::max(largest, std::isnan(x) ? 0 : std::abs(x));
  const double tolerance = (s.dtype == Dtype::BF16 ? 1e-2 : 1.5e-3) * largest;
  for (size_t i = 0; i < want.size(); ++i) {
    if (std::isnan(want[i]) ? std::isnan(got[i]) : std::abs(want[i] - got[i]) <= tolerance)
      continue;
    return Cat("element ", i, " is ", got[i], ", not ", want[i]);
  }
  return "";
}

AttentionShape Small(int64_t heads, int64_t queries, int64_t keys, int64_t depth, Dtype dtype) {
  AttentionShape out{heads, queries, keys, depth, dtype};
  out.widens = true;
  return out;
}

TEST(WarpRowsTest, WeightsAreOperandsAsTheyLie) {
  for (const auto& i : NvidiaMatrixInstructions(80)) {
    if (i.sum != DtypeNumber::F32) continue;
    if (i.name == "mma_tf32") {
      // A lane has two neighbouring results, but operands that lie four steps apart.
      EXPECT_FALSE(codegen::RowFragment::MaybeOf(i));
      continue;
    }
    ASSERT_TRUE(codegen::RowFragment::MaybeOf(i));
    EXPECT_FALSE(codegen::RowFragment::MaybeOf(i)->swapped);
  }
  for (const char* processor : {"gfx90a", "gfx942", "gfx1201"}) {
    ASSERT_TRUE(codegen::RowFragment::MaybeOf(AmdMatrixInstructions(processor)[0]));
    EXPECT_TRUE(codegen::RowFragment::MaybeOf(AmdMatrixInstructions(processor)[0])->swapped);
  }
  // Each half of a warp has every other row of a result, and all of an operand.
  EXPECT_FALSE(codegen::RowFragment::MaybeOf(AmdMatrixInstructions("gfx1100")[0]));
}

TEST(WarpRowsTest, KeepResults) {
  const Opt warps{OptKind::kLocal, 1, 2};
  for (const WarpChip& chip : {Nvidia(), Amd("gfx942"), Amd("gfx1201")}) {
    for (const Dtype dtype : {Dtype::F16, Dtype::BF16}) {
      EXPECT_EQ(CheckWarpRows(Small(1, 16, 64, 16, dtype), {chip, 32}), "");
      EXPECT_EQ(CheckWarpRows(Small(2, 37, 100, 32, dtype), {chip, 16, {warps}}), "");
    }
  }
}

// Of tf32 in memory. The rows of keys are copied as they lie, those of values by elements.
TEST(WarpRowsTest, KeepResultsOfTf32) {
  EXPECT_EQ(CheckWarpRows(Small(1, 16, 64, 16, Dtype::TF32), {Nvidia(), 32}), "");
  EXPECT_EQ(
      CheckWarpRows(Small(2, 37, 100, 32, Dtype::TF32), {Nvidia(), 16, {{OptKind::kLocal, 1, 2}}}),
      "");
}

TEST(WarpRowsTest, RoundResults) {
  for (const Dtype dtype : {Dtype::F16, Dtype::BF16}) {
    AttentionShape shape = Small(1, 37, 50, 32, dtype);
    shape.rounds = true;
    EXPECT_EQ(CheckWarpRows(shape, {Nvidia(), 16}), "");
  }
}

// Blocks that do several parts of the work set their sums anew for each of them.
TEST(WarpRowsTest, BlocksDoSeveralTiles) {
  const std::vector<Opt> more = {{OptKind::kLocal, 1, 2}, {OptKind::kPersist, 0, 2}};
  EXPECT_EQ(CheckWarpRows(Small(2, 70, 50, 16, Dtype::F16), {Nvidia(), 16, more}), "");
}

// Query tiles whose last rows are padding, keys that a step does not divide, rows without any key.
TEST(WarpRowsTest, MasksHideKeys) {
  for (const WarpChip& chip : {Nvidia(), Amd("gfx942")}) {
    for (const auto& [queries, keys] : {std::pair<int64_t, int64_t>{64, 64}, {40, 23}, {21, 90}}) {
      AttentionShape s = Small(2, queries, keys, 16, Dtype::F16);
      s.causal = true;
      EXPECT_EQ(CheckWarpRows(s, {chip, 16, {{OptKind::kLocal, 1, 2}}}), "")
          << queries << " " << keys;
    }
  }
}

// Blocks of keys that are hidden from all rows of a block of threads are not computed.
TEST(WarpRowsTest, HiddenBlocksAreNotComputed) {
  AttentionShape s = Small(1, 128, 128, 16, Dtype::F16);
  s.causal = true;
  UOpContext ctx;
  const UOp kernel = tests::AttentionKernel(ctx, s);
  const Target target = WarpTarget(Nvidia());
  std::string why;
  const std::vector<Opt> opts = WarpOpts(ctx, kernel, target, 16, {{OptKind::kLocal, 1, 2}}, why);
  codegen::Options options;
  options.opts = &opts;
  const auto lowered = codegen::Lower(ctx, kernel, target, options);
  ASSERT_TRUE(lowered.ok()) << lowered.status();
  std::vector<UOp> loops;
  UOp block;
  for (UOp u : lowered->linear.srcs()) {
    if (u.Is(Op::RANGE) && !u.src(0).Is(Op::CONST)) loops.push_back(u);
    if (u.Is(Op::SPECIAL) && u.ints()[0] == static_cast<int64_t>(ir::AxisType::GLOBAL)) block = u;
  }
  ASSERT_EQ(loops.size(), 1u);
  ASSERT_EQ(lowered->launch.grid[0].Evaluate({}), 4);
  for (const int64_t b : {0, 1, 2, 3}) {
    const UOp trips = rules::Simplify(
        ctx, ir::Substitute(ctx, loops[0].src(0), {{block.id(), ctx.Int(block.dtype(), b)}}));
    // The longest one begins first.
    EXPECT_TRUE(trips.IsConstInt(2 * (4 - b))) << b << ": " << ir::Print(ctx, trips);
  }
}

// Two tiles of rows of a warp share the loads of keys and values.
TEST(WarpRowsTest, AWarpHasTwoTiles) {
  AttentionShape s = Small(2, 70, 50, 16, Dtype::F16);
  for (const bool causal : {false, true}) {
    s.causal = causal;
    EXPECT_EQ(CheckWarpRows(s, {Nvidia(), 16, {{OptKind::kUpcast, 1, 2}, {OptKind::kLocal, 1, 2}}}),
              "")
        << causal;
  }
}

// Neighbouring heads that share keys and values: their copies are those of one head.
TEST(WarpRowsTest, HeadsShareKeysAndValues) {
  AttentionShape s = Small(4, 20, 50, 16, Dtype::F16);
  s.group = 2;
  EXPECT_EQ(CheckWarpRows(s, {Nvidia(), 16, {{OptKind::kLocal, 2, 2}}}), "");
  s.causal = true;
  EXPECT_EQ(CheckWarpRows(s, {Amd("gfx942"), 16}), "");
}

TEST(WarpRowsTest, TheNumberOfKeysMayBeAVariable) {
  AttentionShape s = Small(2, 19, 70, 16, Dtype::F16);
  s.symbolic = true, s.least_keys = 1;
  for (const int64_t keys : {1, 16, 33, 70}) {
    WarpCheck check;
    check.n = 16, check.keys = keys;
    EXPECT_EQ(CheckWarpRows(s, check), "") << keys;
    check.heuristic = true;
    EXPECT_EQ(CheckWarpRows(s, check), "") << keys;
  }
}

// Attention of small floats gets the instruction without tuning.
TEST(WarpRowsTest, TheHeuristicChoosesIt) {
  for (const WarpChip& chip : {Nvidia(), Amd("gfx942"), Amd("gfx1201")}) {
    for (const auto& [queries, keys, depth] :
         {std::array<int64_t, 3>{70, 150, 64}, {16, 300, 16}, {33, 40, 128}}) {
      AttentionShape s = Small(1, queries, keys, depth, Dtype::BF16);
      s.causal = keys == 150, s.divided = keys == 300;
      WarpCheck check;
      check.chip = chip, check.heuristic = true;
      EXPECT_EQ(CheckWarpRows(s, check), "") << queries << " " << keys << " " << depth;
    }
  }
}

TEST(WarpRowsTest, WhatItDoesNotFitIsRefused) {
  const auto refused = [](const AttentionShape& s) { return CheckWarpRows(s, {Nvidia(), 16}); };
  EXPECT_NE(refused(Small(1, 16, 64, 20, Dtype::F16)).find("TC does not apply"), std::string::npos);
  AttentionShape plain{1, 16, 64, 16, Dtype::F32};
  EXPECT_NE(refused(plain).find("TC does not apply"), std::string::npos);
  EXPECT_NE(CheckWarpRows(Small(1, 16, 64, 16, Dtype::F16), {Amd("gfx1100"), 16}).find("not apply"),
            std::string::npos);
  EXPECT_NE(
      CheckWarpRows(Small(1, 16, 64, 16, Dtype::F16), {Nvidia(), 16, {{OptKind::kVector, 1, 2}}})
          .find("a matrix instruction computes the axis"),
      std::string::npos);
}

}  // namespace
}  // namespace uopd
