// SPDX-License-Identifier: MIT
// Many elements that each lane loads or not by itself: slices of a buffer that are joined.
#include <algorithm>

#include "core/codegen/opts/choose/heuristic.h"
#include "core/ir/build.h"
#include "gtest/gtest.h"
#include "tests/support/kernel_check.h"

namespace uopd {
namespace {

using codegen::OptKind;
using ir::Dtype;
using ir::UOp;
using tests::KernelBuilder;
using tests::SampleBuffer;

// out[i] = in[n - 1 - i], of n loads of one element each.
UOp ReversedByLoads(ir::UOpContext& ctx, int64_t n) {
  KernelBuilder b(ctx);
  const UOp i = b.Loop(n), from = b.Buffer(1, Dtype::F32, n);
  UOp value = ctx.Float(Dtype::F32, 0);
  for (int64_t k = 0; k < n; ++k) {
    const UOp here = ir::Alu(ctx, ir::Op::CMPEQ, {i, ctx.Idx(k)});
    const UOp load = ir::Load(ctx, ir::Index(ctx, from, ctx.Idx(n - 1 - k), here));
    value = ir::Where(ctx, here, load, value);
  }
  return b.Kernel({b.StoreLoops(b.Buffer(0, Dtype::F32, n), i, value, {i})});
}

TEST(LaneLoadsTest, ManyAreNotVectorised) {
  for (const int64_t n : {8, 64, 256}) {
    ir::UOpContext ctx;
    const UOp kernel = ReversedByLoads(ctx, n);
    const auto opts = codegen::HeuristicOpts(ctx, kernel, tests::WideTarget());
    int64_t lanes = 1;
    for (const codegen::Opt& o : opts) lanes = o.kind == OptKind::kVector ? o.amount : lanes;
    EXPECT_LE(lanes * n, std::max<int64_t>(n, 256)) << n;
    EXPECT_EQ(
        tests::CheckOpts(
            ctx, kernel,
            {SampleBuffer(Dtype::F32, n, 1, true), SampleBuffer(Dtype::F32, n, 2, true)}, opts, 0),
        "")
        << n;
  }
}

}  // namespace
}  // namespace uopd
