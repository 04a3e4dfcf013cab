// SPDX-License-Identifier: MIT
#include "core/schedule/fusion/memory_runs.h"

#include <gtest/gtest.h>

#include "core/ir/build.h"
#include "core/ir/shape.h"

namespace uopd::schedule {
namespace {

using ir::UOp;

class MemoryRunsTest : public ::testing::Test {
 protected:
  UOp Shape(std::vector<int64_t> dims) { return ir::ShapeArg(ctx_, dims); }
  UOp Take(UOp x, std::vector<int64_t> starts, std::vector<int64_t> dims) {
    return ir::Shrink(ctx_, x, Shape(starts), Shape(dims));
  }
  UOp Reshaped(UOp x, std::vector<int64_t> dims) { return ir::Reshape(ctx_, x, dims); }

  // The first element of the run, or -1 if u is no run of x_.
  int64_t First(UOp u) {
    const auto [base, from] = RunOf(ctx_, u);
    return base == x_ ? from : -1;
  }

  ir::UOpContext ctx_;
  const UOp x_ = ir::Param(ctx_, 0, ir::Dtype::F32, ir::ShapeArg(ctx_, {{4, 6, 5}}));
};

TEST_F(MemoryRunsTest, OneOuterElementPartOfAnAxisAndAllInnerAxesAreARun) {
  EXPECT_EQ(First(x_), 0);
  EXPECT_EQ(First(Take(x_, {1, 0, 0}, {2, 6, 5})), 30);
  EXPECT_EQ(First(Take(x_, {2, 3, 0}, {1, 2, 5})), 75);
  EXPECT_EQ(First(Take(x_, {2, 3, 1}, {1, 1, 3})), 76);
  EXPECT_EQ(First(Take(Reshaped(x_, {24, 5}), {7, 0}, {3, 5})), 35);
  EXPECT_EQ(First(Take(Reshaped(Take(x_, {1, 0, 0}, {2, 6, 5}), {60}), {8}, {4})), 38);
}

TEST_F(MemoryRunsTest, PartsOfTwoAxesAreNoRun) {
  EXPECT_EQ(First(Take(x_, {1, 2, 0}, {2, 3, 5})), -1);
  EXPECT_EQ(First(Take(x_, {0, 0, 1}, {4, 6, 3})), -1);
  const int64_t order[] = {1, 0, 2};
  EXPECT_EQ(First(ir::Permute(ctx_, x_, order)), -1);
}

// Rows are as far apart as the largest n.
TEST_F(MemoryRunsTest, RowsOfVariableSizeAreNotAdjacent) {
  const UOp n = ir::Variable(ctx_, "n", 1, 8), four = ctx_.Idx(4), all = ir::Mul(ctx_, n, four);
  auto shape = [&](std::vector<UOp> dims) { return ir::ShapeArg(ctx_, ir::Shape(dims)); };
  auto flat = [&](std::vector<UOp> dims) {
    return ir::Reshape(ctx_, ir::Param(ctx_, 1, ir::Dtype::F32, shape(dims)), shape({all}));
  };
  EXPECT_TRUE(KeepsMemory(ctx_, flat({n, four})));
  EXPECT_FALSE(KeepsMemory(ctx_, flat({four, n})));
}

TEST_F(MemoryRunsTest, StatesOfWholeBuffersAreInMemory) {
  const UOp store = ir::Store(ctx_, x_, Take(x_, {0, 0, 0}, {4, 6, 5}));
  EXPECT_TRUE(IsInMemory(x_));
  EXPECT_TRUE(IsInMemory(ir::After(ctx_, x_, {store})));
  EXPECT_FALSE(IsInMemory(ir::After(ctx_, Reshaped(x_, {120}), {store})));
  EXPECT_FALSE(IsInMemory(Reshaped(x_, {120})));
}

}  // namespace
}  // namespace uopd::schedule
