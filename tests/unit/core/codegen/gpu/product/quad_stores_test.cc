// SPDX-License-Identifier: MIT
// Stores of the results of matrix instructions: neighbours are stored together, and results of 16
// bits change lanes before, so that the four lanes of a quad fill a sector of memory.
#include <cmath>
#include <cstring>

#include "core/base/target/matrix_instructions.h"
#include "core/base/text.h"
#include "core/codegen/opts/opt_plan.h"
#include "gtest/gtest.h"
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

struct StoredProduct {
  int64_t m, n, k;
  Dtype result = Dtype::BF16;
  bool bias = false,
       residual = false;    // added to the product: an f32 of the column, a bf16 of the result
  bool transposed = false;  // the result lies column after column
};

// (m x k) (k x n) of bf16, as the result's dtype. Slots: result, a, b, bias, residual.
UOp StoredProductKernel(UOpContext& ctx, const StoredProduct& p) {
  tests::KernelBuilder b(ctx);
  const UOp i = b.Loop(p.m), j = b.Loop(p.n), k = b.Reduced(p.k);
  const auto wide = [&](UOp u) { return ir::Cast(ctx, u, Dtype::F32); };
  const UOp x = wide(b.Load(b.Buffer(1, Dtype::BF16, p.m * p.k), b.At(i, p.k, k))),
            y = wide(b.Load(b.Buffer(2, Dtype::BF16, p.k * p.n), b.At(k, p.n, j)));
  UOp out = ir::ReduceRanges(ctx, Op::ADD, ir::Mul(ctx, x, y), std::array<UOp, 1>{k});
  const UOp at = p.transposed ? b.At(j, p.m, i) : b.At(i, p.n, j);
  if (p.bias) out = ir::Add(ctx, out, b.Load(b.Buffer(3, Dtype::F32, p.n), j));
  if (p.residual)
    out = ir::Add(ctx, out, wide(b.Load(b.Buffer(4, Dtype::BF16, p.m * p.n), b.At(i, p.n, j))));
  return b.Kernel(
      {b.StoreLoops(b.Buffer(0, p.result, p.m * p.n), at, ir::Cast(ctx, out, p.result), {i, j})});
}

// Small integers: sums are exact in any order, so results are equal in all bits. Results beyond 256
// round.
std::vector<uint8_t> SmallIntegers(Dtype d, int64_t n, uint64_t seed) {
  std::vector<uint8_t> out(static_cast<size_t>(n * ir::ByteSize(d)));
  for (int64_t i = 0; i < n; ++i) {
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    const uint64_t raw = ir::EncodeFloat(d, static_cast<double>(seed >> 33 & 15) - 5);
    std::memcpy(&out[static_cast<size_t>(i * ir::ByteSize(d))], &raw,
                static_cast<size_t>(ir::ByteSize(d)));
  }
  return out;
}

Target QuadTarget(const MatrixInstruction& i) {
  Target out = tests::BlockTarget(true);
  out.matrix_instructions = {i};
  out.shared_bytes = 227 << 10;
  return out;
}

std::string CheckStores(const MatrixInstruction& i, const StoredProduct& p,
                        const std::vector<Opt>& opts) {
  UOpContext ctx;
  tests::CheckOptions check;
  check.target = QuadTarget(i);
  check.options.opts = &opts;
  tests::Memory memory = {SmallIntegers(p.result, p.m * p.n, 1),
                          SmallIntegers(Dtype::BF16, p.m * p.k, 2),
                          SmallIntegers(Dtype::BF16, p.k * p.n, 3)};
  if (p.bias || p.residual) memory.push_back(SmallIntegers(Dtype::F32, p.n, 4));
  if (p.residual) memory.push_back(SmallIntegers(Dtype::BF16, p.m * p.n, 5));
  return tests::CheckKernel(ctx, StoredProductKernel(ctx, p), memory, check).substr(0, 400);
}

// How many elements each store to a buffer takes, and the number of SHUFFLEs.
struct StoreLines {
  std::map<int64_t, int64_t> lanes;  // elements -> stores
  int64_t shuffles = 0, wide_loads = 0;
};
StoreLines LinesOfStores(const MatrixInstruction& i, const StoredProduct& p,
                         const std::vector<Opt>& opts) {
  UOpContext ctx;
  codegen::Options options;
  options.opts = &opts;
  const auto kernel = codegen::Lower(ctx, StoredProductKernel(ctx, p), QuadTarget(i), options);
  EXPECT_TRUE(kernel.ok()) << kernel.status();
  StoreLines out;
  if (!kernel.ok()) return out;
  for (UOp u : kernel->linear.srcs()) {
    out.shuffles += u.Is(Op::SHUFFLE) ? 1 : 0;
    if (!u.Is({Op::LOAD, Op::STORE}) || !u.src(0).src(0).Is(Op::PARAM)) continue;
    const UOp index = u.src(0);
    const int64_t lanes = std::max<int64_t>(index.arg().AsInt(), 1);
    if (u.Is(Op::STORE)) ++out.lanes[lanes];
    out.wide_loads += u.Is(Op::LOAD) && index.src(0).slot() >= 3 && lanes > 1 ? 1 : 0;
  }
  return out;
}

MatrixInstruction WarpInstruction() { return NvidiaMatrixInstructions(80)[0]; }
MatrixInstruction WideGroupInstruction(int64_t n) {
  for (const MatrixInstruction& i : WarpgroupMatrixInstructions()) {
    if (i.n == n && i.a == DtypeNumber::BF16) return i;
  }
  return {};
}

const Opt kTile{OptKind::kTensorCore, 2, 0};
const std::vector<Opt> kWarpOpts = {
    kTile, {OptKind::kUpcast, 0, 2}, {OptKind::kUpcast, 1, 4}, {OptKind::kLocal, 1, 2}};
const std::vector<Opt> kStagedOpts = {kTile,
                                      {OptKind::kUpcast, 1, 2},
                                      {OptKind::kLocal, 0, 2},
                                      {OptKind::kBlock, 2, 1},
                                      {OptKind::kPack, 0, 0},
                                      {OptKind::kPack, 1, 0}};
const std::vector<Opt> kGroupOpts = {kTile, {OptKind::kUpcast, 0, 2}};

// Sizes that tiles divide, that only four divide, that only two divide, and odd ones.
TEST(QuadStoresTest, ResultsLieWhereTheyBelong) {
  for (const StoredProduct& p : {StoredProduct{64, 64, 16},
                                 {35, 68, 20, Dtype::F16, true},
                                 {34, 70, 17, Dtype::BF16, true},
                                 {33, 67, 9, Dtype::F16, true},
                                 {40, 72, 16, Dtype::BF16, true, true},
                                 {40, 66, 16, Dtype::F32, true, true},
                                 {32, 72, 16, Dtype::BF16, true, false, true}}) {
    const std::string name = Cat(p.m, "x", p.n, "x", p.k);
    EXPECT_EQ(CheckStores(WarpInstruction(), p, kWarpOpts), "") << name;
    EXPECT_EQ(CheckStores(WarpInstruction(), p, kStagedOpts), "") << name;
    EXPECT_EQ(CheckStores(WideGroupInstruction(64), p, {kTile}), "") << name;
  }
  EXPECT_EQ(CheckStores(WarpInstruction(), {20, 20, 16, Dtype::BF16, true}, {kTile}), "");
  EXPECT_EQ(
      CheckStores(WideGroupInstruction(32), {70, 36, 16, Dtype::BF16, true, true}, kGroupOpts), "");
}

// A block that does several tiles exchanges in a loop.
TEST(QuadStoresTest, PersistentBlocksExchange) {
  std::vector<Opt> opts = kGroupOpts;
  opts.push_back({OptKind::kPersist, 0, 3});
  EXPECT_EQ(CheckStores(WideGroupInstruction(64), {300, 70, 16}, opts), "");
}

TEST(QuadStoresTest, ALaneStoresFourNeighboursOf16Bits) {
  // Each lane has 2 x 4 tiles of four results.
  const StoreLines warp = LinesOfStores(WarpInstruction(), {128, 128, 32}, kWarpOpts);
  EXPECT_EQ(warp.lanes, (std::map<int64_t, int64_t>{{4, 8}}));
  EXPECT_EQ(warp.shuffles, 8);
  // Each lane of a group has two tiles of 16 results.
  const StoreLines group = LinesOfStores(WideGroupInstruction(32), {128, 128, 32}, kGroupOpts);
  EXPECT_EQ(group.lanes, (std::map<int64_t, int64_t>{{4, 8}}));
  EXPECT_EQ(group.shuffles, 8);
  // The same where four divide the columns and tiles do not.
  const StoreLines odd = LinesOfStores(WideGroupInstruction(32), {128, 100, 20}, kGroupOpts);
  EXPECT_EQ(odd.lanes, (std::map<int64_t, int64_t>{{4, 8}}));
}

TEST(QuadStoresTest, ResultsOf32BitsStayInTheirLanes) {
  for (const MatrixInstruction& i : {WarpInstruction(), WideGroupInstruction(32)}) {
    const StoreLines lines = LinesOfStores(i, {128, 128, 32, Dtype::F32, true, true},
                                           i.in_shared() ? kGroupOpts : kWarpOpts);
    EXPECT_EQ(lines.lanes, (std::map<int64_t, int64_t>{{2, 16}}));
    EXPECT_EQ(lines.shuffles, 0);
    EXPECT_GT(lines.wide_loads, 0);  // of the bias and of what is added
  }
}

// Where neighbours of a lane are not neighbours in memory, or rows begin at odd places.
TEST(QuadStoresTest, OtherResultsStayInTheirLanes) {
  for (const StoredProduct& p :
       {StoredProduct{64, 64, 16, Dtype::BF16, false, false, true}, {64, 67, 16}}) {
    const StoreLines lines = LinesOfStores(WarpInstruction(), p, {kTile, {OptKind::kUpcast, 1, 2}});
    EXPECT_EQ(lines.shuffles, 0);
    EXPECT_FALSE(lines.lanes.contains(4));
  }
}

}  // namespace
}  // namespace uopd
