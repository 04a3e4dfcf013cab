// SPDX-License-Identifier: MIT
#include "core/ir/analysis/sizes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/ir/build.h"

namespace uopd::ir {
namespace {

class SizesTest : public ::testing::Test {
 protected:
  UOp Bound(const std::string& name, int64_t value) {
    return ctx_.Make(Op::BIND, Dtype::Index, {Variable(ctx_, name, 0, 9), ctx_.Idx(value)}, {},
                     kBound);
  }
  UOp Number(int64_t n) { return ctx_.Idx(n); }

  UOpContext ctx_;
};

TEST_F(SizesTest, EqualSizesAreOneNode) {
  const UOp n = Bound("n", 3), m = Bound("m", 2);
  const auto same = [&](UOp a, UOp b) { return CanonicalSize(ctx_, a) == CanonicalSize(ctx_, b); };
  EXPECT_TRUE(same(Add(ctx_, n, m), Add(ctx_, m, n)));
  EXPECT_TRUE(same(Mul(ctx_, Add(ctx_, n, m), Number(2)),
                   Add(ctx_, Mul(ctx_, Number(2), m), Add(ctx_, n, n))));
  EXPECT_TRUE(same(Sub(ctx_, Add(ctx_, n, m), n), m));
  EXPECT_TRUE(CanonicalSize(ctx_, Sub(ctx_, n, n)).IsConstInt(0));
  EXPECT_FALSE(same(n, m));
  EXPECT_FALSE(same(n, Bound("n", 4))) << "another value is another size";
  const UOp larger = Alu(ctx_, Op::MAX, {Add(ctx_, n, m), Number(4)}),
            other = Alu(ctx_, Op::MAX, {Add(ctx_, m, n), Number(4)});
  EXPECT_TRUE(same(Add(ctx_, larger, Number(1)), Add(ctx_, Number(1), other)));
}

// The order does not depend on which values were there first.
TEST_F(SizesTest, TheFormIsThatOfNames) {
  const UOp b = Bound("b", 1), a = Bound("a", 2);
  const std::string first = SizeText(CanonicalSize(ctx_, Add(ctx_, b, a)));
  const std::string second = SizeText(CanonicalSize(ctx_, Add(ctx_, Bound("b", 5), a)));
  EXPECT_EQ(first, "a + b");
  EXPECT_EQ(second, first);
  EXPECT_EQ(SizeText(CanonicalSize(ctx_, Sub(ctx_, Mul(ctx_, a, b), Number(3)))), "a*b - 3");
  EXPECT_EQ(BoundText(Add(ctx_, b, a)), "a = 2, b = 1");
}

TEST_F(SizesTest, ValuesOfNow) {
  const UOp n = Bound("n", 7), m = Bound("m", 2);
  EXPECT_EQ(BoundValue(Sub(ctx_, Mul(ctx_, n, m), Number(1))), 13);
  EXPECT_EQ(BoundValue(FloorDiv(ctx_, n, m)), 3);
  EXPECT_EQ(BoundValue(FloorMod(ctx_, Sub(ctx_, m, n), Number(3))), 1);
  EXPECT_EQ(BoundValue(FloorDiv(ctx_, n, Sub(ctx_, m, m))), 0) << "as the op has it";
  EXPECT_EQ(BoundValue(Variable(ctx_, "n", 0, 9)), std::nullopt);
  EXPECT_EQ(BoundValue(Mul(ctx_, Number(INT64_MAX), n)), std::nullopt);
  // A value that comes without the tag is nobody's.
  const UOp foreign = ctx_.Make(Op::BIND, Dtype::Index, {Variable(ctx_, "n", 0, 9), Number(3)});
  EXPECT_EQ(BoundValue(foreign), std::nullopt);
}

TEST_F(SizesTest, BoxesOfNowAndOfAllValues) {
  const UOp n = Bound("n", 3), m = Bound("m", 4);
  EXPECT_TRUE(BoxFits(ctx_, n, Number(1), Number(10)));
  EXPECT_FALSE(BoxFits(ctx_, n, Number(2), Number(10)));
  EXPECT_TRUE(BoxFitsNow(n, Number(2), Number(10)));
  EXPECT_TRUE(BoxFitsNow(n, m, Number(7)));
  EXPECT_FALSE(BoxFitsNow(n, m, Number(6)));
  EXPECT_FALSE(BoxFitsNow(Sub(ctx_, n, m), Number(1), Number(6)));
  EXPECT_FALSE(BoxFitsNow(Number(0), Sub(ctx_, n, m), Number(6)));
  EXPECT_FALSE(BoxFitsNow(Number(INT64_MAX), Number(INT64_MAX), Number(6)));
}

}  // namespace
}  // namespace uopd::ir
