// SPDX-License-Identifier: MIT
// ONLINE: attention in blocks of keys, against the interpreter, which computes whole rows.
#include "core/codegen/opt/apply.h"
#include "core/codegen/opt/opt_plan.h"
#include "core/codegen/opt/prepare_stages.h"
#include "core/ir/graph.h"
#include "gtest/gtest.h"
#include "tests/support/attention_kernel.h"
#include "tests/support/kernel_check.h"

namespace uopd {
namespace {

using codegen::Opt;
using codegen::OptKind;
using ir::Dtype;
using ir::Op;
using ir::UOp;
using ir::UOpContext;
using tests::AttentionShape;

// The axis of the maximum of the scores.
int MaximumAxis(UOpContext& ctx, UOp kernel) {
  const UOp sink = codegen::PrepareStages(ctx, kernel);
  const auto axes = codegen::Axes(ctx, sink);
  for (UOp u : ir::Toposort(ctx, sink)) {
    if (u.Is(Op::REDUCE) && u.reduce_op() == Op::MAX)
      return static_cast<int>(std::ranges::find(axes, u.closed()[0]) - axes.begin());
  }
  return -1;
}

tests::Memory SampleMemory(const AttentionShape& s, bool tame) {
  const int64_t rows = s.heads * s.queries * s.depth, keys = s.heads * s.keys * s.depth;
  tests::Memory out;
  for (const int64_t n : {rows, rows, keys, keys})
    out.push_back(tests::SampleBuffer(s.dtype, n, out.size() + 1, tame));
  return out;
}

double Tolerance(Dtype d) {
  return d == Dtype::BF16 ? 4e-2 : d == Dtype::F16 ? 4e-3 : d == Dtype::F64 ? 1e-12 : 5e-6;
}

// What is wrong with the kernel in blocks of n keys and with `more` opts; empty: nothing.
std::string CheckOnline(const AttentionShape& s, int64_t n, const std::vector<Opt>& more,
                        const tests::Memory& memory) {
  UOpContext ctx;
  const UOp kernel = tests::AttentionKernel(ctx, s);
  std::vector<Opt> opts = {{OptKind::kOnline, MaximumAxis(ctx, kernel), n}};
  opts.insert(opts.end(), more.begin(), more.end());
  return tests::CheckOpts(ctx, kernel, memory, opts, Tolerance(s.dtype));
}

TEST(OnlineTest, BlocksOfKeysKeepResults) {
  for (const AttentionShape& s :
       {AttentionShape{2, 3, 16, 5}, {1, 1, 7, 1}, {1, 5, 33, 3}, {2, 4, 100, 16}, {1, 9, 64, 33}}) {
    for (const int64_t n : {1, 4, 6, 32}) {
      if (n >= s.keys) continue;
      for (const bool divided : {false, true}) {
        AttentionShape shape = s;
        shape.divided = divided, shape.shared_range = n == 6;
        EXPECT_EQ(CheckOnline(shape, n, {}, SampleMemory(s, true)), "") << s.keys << " by " << n;
      }
    }
  }
}

}  // namespace
}  // namespace uopd
