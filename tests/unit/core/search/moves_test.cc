// SPDX-License-Identifier: MIT
// The candidates of the beam search on targets with blocks.
#include <map>
#include <set>

#include "core/base/target/gpu_targets.h"
#include "core/codegen/codegen.h"
#include "core/ir/build.h"
#include "core/search/moves.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace uopd::search {
namespace {

using codegen::Opt;
using codegen::OptKind;
using ir::AxisType;
using ir::Dtype;
using ir::Op;
using ir::UOp;

// out[m, n] = sum over k of a[m, k] * b[k, n], of f16 values in f32. With `rows`, n is an image of
// so many rows: two axes.
UOp HalfProduct(ir::UOpContext& ctx, int64_t m, int64_t n, int64_t k, int64_t rows = 1) {
  const auto param = [&](int64_t slot, Dtype dtype, int64_t size) {
    return ir::Param(ctx, slot, dtype, ctx.Make(Op::STACK, Dtype::Index, {ctx.Idx(size)}));
  };
  const UOp i = ir::Range(ctx, ctx.Idx(m), 0, AxisType::LOOP),
            y = ir::Range(ctx, ctx.Idx(rows), 1, AxisType::LOOP),
            x = ir::Range(ctx, ctx.Idx(n / rows), 2, AxisType::LOOP),
            r = ir::Range(ctx, ctx.Idx(k), 3, AxisType::REDUCE);
  const auto at = [&](UOp row, int64_t stride, UOp column) {
    return ir::Add(ctx, ir::Mul(ctx, row, ctx.Idx(stride)), column);
  };
  const UOp j = rows == 1 ? x : at(y, n / rows, x);
  const auto load = [&](int64_t slot, int64_t size, UOp index) {
    return ir::Cast(ctx, ir::Load(ctx, ir::Index(ctx, param(slot, Dtype::F16, size), index)),
                    Dtype::F32);
  };
  const UOp product = ir::Mul(ctx, load(1, m * k, at(i, k, r)), load(2, k * n, at(r, n, j)));
  const UOp sum = ir::ReduceRanges(ctx, Op::ADD, product, std::span(&r, 1));
  const UOp store = ir::Store(ctx, ir::Index(ctx, param(0, Dtype::F32, m * n), at(i, n, j)), sum);
  std::vector<UOp> loops = {i, x};
  if (rows > 1) loops.insert(loops.begin() + 1, y);
  const UOp end = ir::End(ctx, store, loops);
  return ir::KernelSink(ctx, std::span(&end, 1), "product");
}

// The moves that lower, by kind: "axis;amount", in order.
std::map<OptKind, std::vector<std::string>> Legal(ir::UOpContext& ctx, UOp sink,
                                                  const Target& target, const Opts& from) {
  std::map<OptKind, std::vector<std::string>> out;
  for (const Opts& next : Neighbours(SpaceOf(ctx, sink), target, from)) {
    if (next.size() <= from.size()) continue;
    ir::UOpContext scratch(&ctx);
    if (!codegen::Lower(scratch, sink, target, {.opts = &next}).ok()) continue;
    for (const Opt& opt : next) {
      if (std::ranges::find(from, opt) == from.end())
        out[opt.kind].push_back(std::to_string(opt.axis) + ";" + std::to_string(opt.amount));
    }
  }
  return out;
}

TEST(BlockMoves, OfAProductOnNvidia) {
  ir::UOpContext ctx;
  const UOp sink = HalfProduct(ctx, 48, 40, 64);
  const Target target = *GpuTarget("sm_80");
  using List = std::vector<std::string>;
  const List both = {"0;2", "0;3", "0;4", "0;5", "0;6", "0;7", "0;8",
                     "1;2", "1;3", "1;4", "1;5", "1;6", "1;7", "1;8"};
  const std::map<OptKind, List> want = {
      {OptKind::kUpcast, both},
      {OptKind::kUnroll, {"2;2", "2;4", "2;8", "2;16"}},
      {OptKind::kVector, {"0;2", "0;4", "0;8", "1;2", "1;4", "1;8", "2;2", "2;4", "2;8"}},
      {OptKind::kPack, {"0;0", "1;0"}},
      {OptKind::kTensorCore, {"2;1"}},
      {OptKind::kBlock, {"2;2", "2;4", "2;8", "2;16", "2;32"}},
      {OptKind::kLocal, {"0;2", "0;4", "0;8", "0;16", "0;32", "1;2", "1;4", "1;8", "1;16", "1;32"}},
      {OptKind::kGroup, {"2;4", "2;8", "2;16", "2;32"}},
      {OptKind::kGroupTop, {"2;4", "2;8", "2;16", "2;32"}},
      {OptKind::kSwap, {"0;1"}},
      {OptKind::kPadTo, {"0;32", "0;64", "1;16", "1;32", "1;64"}},
      {OptKind::kNoLocals, {"0;0"}},
      {OptKind::kRaster, {"0;4", "0;8", "0;16"}},
      {OptKind::kPersist, {"0;108", "0;216"}},
  };
  EXPECT_EQ(Legal(ctx, sink, target, {}), want);
}

// With a tile of a matrix instruction: more tiles, steps that a block copies, and copies of the
// operands.
TEST(BlockMoves, BesideAMatrixInstruction) {
  ir::UOpContext ctx;
  const UOp sink = HalfProduct(ctx, 64, 64, 128);
  const auto moves = Legal(ctx, sink, *GpuTarget("sm_80"), {{OptKind::kTensorCore, 2, 0}});
  std::set<OptKind> kinds;
  for (const auto& [kind, list] : moves) kinds.insert(kind);
  EXPECT_THAT(kinds, testing::IsSupersetOf({OptKind::kLocal, OptKind::kUpcast, OptKind::kUnroll,
                                            OptKind::kBlock, OptKind::kPack, OptKind::kSwap}));
}

// The rows and columns of an image may become one axis, which then has the tiles; neither does with
// the rows of the other factor.
TEST(BlockMoves, MergeTheAxesOfAnImage) {
  ir::UOpContext ctx;
  const UOp sink = HalfProduct(ctx, 64, 42, 64, 6);
  const Target target = *GpuTarget("sm_80");
  auto moves = Legal(ctx, sink, target, {});
  EXPECT_EQ(moves[OptKind::kMerge], std::vector<std::string>{"1;2"});
  EXPECT_THAT(moves[OptKind::kLocal], testing::Not(testing::Contains("1;32")));
  moves = Legal(ctx, sink, target, {{OptKind::kMerge, 1, 2}});
  EXPECT_EQ(moves.count(OptKind::kMerge), 0U);
  EXPECT_THAT(moves[OptKind::kLocal], testing::Contains("1;32"));
  EXPECT_THAT(moves[OptKind::kLocal], testing::Not(testing::Contains("2;2")));
  EXPECT_EQ(Legal(ctx, HalfProduct(ctx, 64, 42, 64), target, {}).count(OptKind::kMerge), 0U);
}

}  // namespace
}  // namespace uopd::search
