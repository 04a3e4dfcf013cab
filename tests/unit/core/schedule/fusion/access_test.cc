// SPDX-License-Identifier: MIT
#include "core/schedule/fusion/access.h"

#include <gtest/gtest.h>

#include "core/ir/build.h"
#include "core/rules/rules.h"

namespace uopd::schedule {
namespace {

using ir::AxisType;
using ir::Dtype;
using ir::UOp;

class AccessTest : public ::testing::Test {
 protected:
  UOp Param(std::initializer_list<int64_t> dims, int64_t slot = 0) {
    return ir::Param(ctx_, slot, Dtype::F32, ir::ShapeArg(ctx_, std::vector<int64_t>(dims)));
  }
  UOp Loop(int64_t size, int64_t id) { return ir::Range(ctx_, ctx_.Idx(size), id, AxisType::LOOP); }
  const Access* At(std::vector<UOp> index) { return accesses_.At(index, ctx_.Bool(true)); }

  ir::UOpContext ctx_;
  rewrite::Rewriter simplify_{ctx_, rules::SymbolicRules()};
  Accesses accesses_{ctx_, simplify_};
};

TEST_F(AccessTest, EqualOnesAreTheSameOnceSimplified) {
  const UOp i = Loop(6, 0), j = Loop(4, 1);
  const Access* a = At({i, j});
  EXPECT_EQ(At({ir::Add(ctx_, i, ctx_.Idx(0)), j}), a);
  EXPECT_NE(At({j, i}), a);
  EXPECT_NE(accesses_.At(a->index, ir::Lt(ctx_, i, j)), a);
  EXPECT_TRUE(a->always());
  EXPECT_EQ(a->ranges, UsedRanges::Bit(i) | UsedRanges::Bit(j));
  EXPECT_EQ(At({i, ctx_.Idx(0)})->ranges, UsedRanges::Bit(i));
}

// The same movement of other values of the same shape, and back again.
TEST_F(AccessTest, MovementOpsAreFollowedByShapeAndArg) {
  const UOp i = Loop(24, 0);
  const int64_t flat[] = {24}, wide[] = {6, 4}, order[] = {1, 0};
  const Access* at = At({i});
  const Access* split = accesses_.OfSource(ir::Reshape(ctx_, Param({6, 4}, 0), flat), at);
  ASSERT_EQ(split->index.size(), 2u);
  EXPECT_EQ(accesses_.OfSource(ir::Reshape(ctx_, Param({6, 4}, 1), flat), at), split);
  EXPECT_NE(accesses_.OfSource(ir::Reshape(ctx_, Param({4, 6}, 1), flat), at), split);
  EXPECT_EQ(accesses_.OfSource(ir::Reshape(ctx_, Param({24}), wide), split), at);
  const UOp turned = ir::Permute(ctx_, Param({6, 4}), order);
  const int64_t same[] = {0, 1};
  EXPECT_EQ(accesses_.OfSource(turned, split), At({split->index[1], split->index[0]}));
  EXPECT_EQ(accesses_.OfSource(ir::Permute(ctx_, Param({4, 6}), same), split), split);
  EXPECT_EQ(accesses_.Offset(ctx_.ShapeOf(Param({6, 4})), split), i);
}

TEST_F(AccessTest, OperandsBroadcastAndLoseGatesThatOnlyTheResultNeeds) {
  const UOp i = Loop(6, 0), j = Loop(4, 1);
  const UOp gate = ir::Lt(ctx_, i, ctx_.Idx(5));
  const UOp index[] = {i, j};
  const Access* at = accesses_.At(index, gate);
  const ir::Shape *full = ctx_.ShapeOf(Param({6, 4})), *row = ctx_.ShapeOf(Param({4})),
                  *column = ctx_.ShapeOf(Param({6, 1}));
  EXPECT_EQ(accesses_.OfOperand(full, full, false, at), at);
  EXPECT_EQ(accesses_.OfOperand(row, full, true, at), At({j}));
  EXPECT_EQ(accesses_.OfOperand(column, full, true, at), At({i, ctx_.Idx(0)}));
  const UOp in_row[] = {j};
  EXPECT_EQ(accesses_.OfOperand(row, full, false, at), accesses_.At(in_row, gate));
  // Beyond the end of what is read: the gate keeps it there.
  const UOp shifted[] = {i, ir::Add(ctx_, j, ctx_.Idx(1))};
  const Access* out = accesses_.At(shifted, ir::Lt(ctx_, j, ctx_.Idx(3)));
  EXPECT_EQ(accesses_.OfOperand(row, full, true, out)->gate, out->gate);
  // An axis of one element that padding has moved is still that element.
  const Access* moved = At({ir::Sub(ctx_, j, ctx_.Idx(1))});
  const ir::Shape* one = ctx_.ShapeOf(Param({1}));
  EXPECT_EQ(accesses_.OfOperand(one, one, false, moved), At({ctx_.Idx(0)}));
}

}  // namespace
}  // namespace uopd::schedule
