// SPDX-License-Identifier: MIT
#include "core/schedule/prepare/strided_operands.h"

#include "core/ir/graph.h"
#include "core/ir/verify/spec.h"
#include "core/rules/rules.h"
#include "gtest/gtest.h"
#include "tests/support/model_graphs.h"
#include "tests/support/schedule_interpreter.h"

namespace uopd::schedule {
namespace {

using ir::Dtype;
using ir::Op;
using ir::UOp;
using test::HostArray;

class StridedOperandsTest : public ::testing::Test {
 protected:
  // x (channels, 2 h, 2 w) at every second row and column; w (outs, channels): their product over
  // the channels, (outs, h * w).
  UOp Strided(UOp x, UOp w) {
    const ir::Dims d = g_.DimsOf(x);
    x = g_.Reshape(x, {d[0], d[1] / 2, 2, d[2] / 2, 2});
    x = g_.Shrink(x, {0, 0, 0, 0, 1}, {d[0], d[1] / 2, 1, d[2] / 2, 1});
    return g_.MatMul(w, g_.Reshape(x, {d[0], d[1] * d[2] / 4}));
  }
  int Copies() {
    const UOp sink = g_.Finish();
    rewrite::Rewriter simplify(ctx_, rules::SymbolicRules());
    Accesses accesses(ctx_, simplify);
    const UOp made = CopyStridedOperands(ctx_, accesses, ir::Toposort(ctx_, sink));
    const absl::Status ok = ir::Verify(ctx_, made, ir::Level::kTensor);
    EXPECT_TRUE(ok.ok()) << ok;
    int n = 0;
    for (UOp u : ir::Toposort(ctx_, made)) n += u.Is(Op::CONTIGUOUS) ? 1 : 0;
    return n;
  }

  ir::UOpContext ctx_;
  test::GraphBuilder g_{ctx_};
};

TEST_F(StridedOperandsTest, IsCopiedOnceAndTheResultStays) {
  constexpr int64_t kIn = 20, kOut = 33, kSize = 36;
  const UOp x = g_.Input({kIn, kSize, kSize});
  g_.Output(Strided(x, g_.Input({kOut, kIn})));
  EXPECT_EQ(Copies(), 1);
  const auto schedule = MakeSchedule(ctx_, g_.Finish(), {});
  ASSERT_TRUE(schedule.ok()) << schedule.status();
  EXPECT_EQ(schedule->items.size(), 2u);
  std::vector<double> a(kIn * kSize * kSize), b(kOut * kIn);
  for (size_t i = 0; i < a.size(); ++i) a[i] = static_cast<double>(i * 7919 % 41) - 20;
  for (size_t i = 0; i < b.size(); ++i) b[i] = static_cast<double>(i * 104729 % 23) - 11;
  const auto slots =
      test::RunSchedule(*schedule, {HostArray::Of(Dtype::F32, {kIn, kSize, kSize}, a),
                                    HostArray::Of(Dtype::F32, {kOut, kIn}, b),
                                    HostArray::Zeros(Dtype::F32, {kOut, kSize * kSize / 4})});
  ASSERT_TRUE(slots.ok()) << slots.status();
  const std::vector<double> got = (*slots)[2].ToDoubles();
  for (int64_t o = 0, n = 0; o < kOut; ++o) {
    for (int64_t row = 0; row < kSize; row += 2) {
      for (int64_t column = 1; column < kSize; column += 2, ++n) {
        double want = 0;
        for (int64_t c = 0; c < kIn; ++c)
          want += a[static_cast<size_t>((c * kSize + row) * kSize + column)] *
                  b[static_cast<size_t>(o * kIn + c)];
        ASSERT_EQ(got[static_cast<size_t>(n)], want) << o << " " << row << " " << column;
      }
    }
  }
}

TEST_F(StridedOperandsTest, ACopyThatDoesNotPayIsNotMade) {
  // Every element is read.
  g_.Output(g_.MatMul(g_.Input({64, 20}), g_.Input({20, 400})));
  // Half of the rows, each of them whole.
  const UOp rows = g_.Shrink(g_.Input({40, 400}), {10, 0}, {20, 400});
  g_.Output(g_.MatMul(g_.Input({64, 20}), rows));
  // Each element is used too rarely.
  g_.Output(Strided(g_.Input({20, 36, 36}), g_.Input({31, 20})));
  // The program computes the operand.
  g_.Output(Strided(g_.Relu(g_.Input({20, 36, 36})), g_.Input({64, 20})));
  // Few elements.
  g_.Output(Strided(g_.Input({20, 16, 16}), g_.Input({64, 20})));
  EXPECT_EQ(Copies(), 0);
}

}  // namespace
}  // namespace uopd::schedule
