// SPDX-License-Identifier: MIT
#include <cmath>

#include "tests/unit/client/cpp/fixture.h"

namespace uopd::client {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class MovementTest : public ClientTest {};

TEST_F(MovementTest, ReshapesWithAHole) {
  const Tensor x = Ramp({2, 6});
  EXPECT_EQ(x.Reshape({3, -1}).dims(), (Dims{3, 4}));
  EXPECT_EQ(x.Flatten().dims(), (Dims{12}));
  EXPECT_EQ(x.Unsqueeze(1).Squeeze(-2).dims(), (Dims{2, 6}));
  EXPECT_FALSE(x.Reshape({5, -1}).status().ok());
  EXPECT_FALSE(x.Reshape({7}).status().ok());
  EXPECT_FALSE(x.Reshape({-1, -1}).status().ok());
  EXPECT_FALSE(Ramp({0}).Reshape({0, -1}).status().ok());
}

TEST_F(MovementTest, PermutesPadsAndFlips) {
  const Tensor x = Ramp({2, 3});
  EXPECT_THAT(Out(x.Transpose()), ElementsAre(0, 3, 1, 4, 2, 5));
  EXPECT_THAT(Out(x.Permute({-1, 0})), ElementsAre(0, 3, 1, 4, 2, 5));
  EXPECT_THAT(Out(x.Flip({-1})), ElementsAre(2, 1, 0, 5, 4, 3));
  EXPECT_THAT(Out(x.Pad({0, 1}, {1, 0}, 9)), ElementsAre(9, 0, 1, 2, 9, 3, 4, 5, 9, 9, 9, 9));
  EXPECT_THAT(Out(x.Shrink({1, 1}, {2, 3})), ElementsAre(4, 5));
  EXPECT_THAT(Out(Ramp({2, 1}).Expand({2, -1, 2})), ElementsAre(0, 0, 1, 1, 0, 0, 1, 1));
  EXPECT_FALSE(x.Permute({0, 0}).status().ok());
  EXPECT_FALSE(x.Shrink({0, 2}, {2, 4}).status().ok());
}

// Against the loop of Python's slice.indices for every small begin, end and step.
TEST_F(MovementTest, SlicesLikePython) {
  constexpr int64_t n = 5;
  const Tensor x = Ramp({n});
  ASSERT_TRUE(x.Realize().ok());
  for (int64_t step : {-7, -2, -1, 1, 2, 3, 9}) {
    for (int64_t b = -7; b <= 7; ++b) {
      for (int64_t e = -7; e <= 7; ++e) {
        std::vector<double> want;
        auto fix = [&](int64_t v) {
          if (v < 0) v += n;
          return step > 0 ? std::min(std::max<int64_t>(v, 0), n)
                          : std::min(std::max<int64_t>(v, -1), n - 1);
        };
        if (step > 0)
          for (int64_t i = fix(b); i < fix(e); i += step) want.push_back(static_cast<double>(i));
        else
          for (int64_t i = fix(b); i > fix(e); i += step) want.push_back(static_cast<double>(i));
        EXPECT_EQ(Out(x.Slice({{b, e, step}})), want) << b << ":" << e << ":" << step;
      }
    }
  }
}

TEST_F(MovementTest, SlicesSeveralAxes) {
  const Tensor x = Ramp({3, 4});
  EXPECT_THAT(Out(x.Slice({{1, {}}, {{}, {}, -2}})), ElementsAre(7, 5, 11, 9));
  EXPECT_THAT(Out(x.Slice({{}, {1, 2}})), ElementsAre(1, 5, 9));
  EXPECT_THAT(Out(x.Select(0, -1)), ElementsAre(8, 9, 10, 11));
  EXPECT_THAT(Out(x.Slice({{2, 1}})), IsEmpty());
  EXPECT_FALSE(x.Slice({{0, 1, 0}}).status().ok());
  EXPECT_FALSE(x.Select(1, 4).status().ok());
}

TEST_F(MovementTest, ConcatenatesAndStacks) {
  const Tensor a = Ramp({2, 1}), b = Ramp({2, 2}, 1, 10);
  const Tensor parts[] = {a, b, Ramp({2, 0})};
  EXPECT_THAT(Out(Concat(parts, 1)), ElementsAre(0, 10, 11, 1, 12, 13));
  const Tensor rows[] = {Ramp({2}), Ramp({2}, 1, 5)};
  EXPECT_THAT(Out(Stack(rows)), ElementsAre(0, 1, 5, 6));
  EXPECT_THAT(Out(Stack(rows, -1)), ElementsAre(0, 5, 1, 6));
  const Tensor mixed[] = {In({1}, {3}, Dtype::I32), In({1}, {0.5})};
  EXPECT_EQ(Concat(mixed).dtype(), Dtype::F32);
  const Tensor wrong[] = {a, Ramp({3, 3})};
  EXPECT_THAT(StatusText(Concat(wrong, 1).status()), HasSubstr("Concat"));
  EXPECT_FALSE(Concat({}).status().ok());
}

TEST_F(MovementTest, ConcatenationKeepsEveryBit) {
  const Tensor parts[] = {In({2}, {-0.0, INFINITY}), In({2}, {NAN, -0.0})};
  const auto out = Out(Concat(parts));
  EXPECT_TRUE(std::signbit(out[0]));
  EXPECT_EQ(out[1], INFINITY);
  EXPECT_TRUE(std::isnan(out[2]));
  EXPECT_TRUE(std::signbit(out[3]));
}

TEST_F(MovementTest, SelectsByIndexTensor) {
  const Tensor x = Ramp({3, 2}), i = In({2, 2}, {2, 0, -1, 5}, Dtype::I32);
  const Tensor rows = x.IndexSelect(0, i);
  EXPECT_EQ(rows.dims(), (Dims{2, 2, 2}));
  EXPECT_THAT(Out(rows), ElementsAre(4, 5, 0, 1, 4, 5, 0, 0));  // 5 is outside
  const Tensor columns = x.IndexSelect(1, In({1}, {1}, Dtype::I64));
  EXPECT_EQ(columns.dims(), (Dims{3, 1}));
  EXPECT_THAT(Out(columns), ElementsAre(1, 3, 5));
  // Rows that are not chosen do not leak their infinities.
  EXPECT_THAT(Out(In({2}, {INFINITY, 1}).IndexSelect(0, In({1}, {1}, Dtype::I32))), ElementsAre(1));
  EXPECT_FALSE(x.IndexSelect(0, Ramp({2})).status().ok());
}

TEST_F(MovementTest, MakesOneHots) {
  EXPECT_THAT(Out(In({2}, {2, 0}, Dtype::U8).OneHot(3)), ElementsAre(0, 0, 1, 1, 0, 0));
  EXPECT_THAT(Out(client_.Eye(2)), ElementsAre(1, 0, 0, 1));
  EXPECT_THAT(Out(client_.Arange(5, -1, -2)), ElementsAre(5, 3, 1));
  EXPECT_THAT(Out(client_.Arange(3, 3)), IsEmpty());
  EXPECT_FALSE(client_.Arange(0, 5, 0).status().ok());
}

}  // namespace
}  // namespace uopd::client
