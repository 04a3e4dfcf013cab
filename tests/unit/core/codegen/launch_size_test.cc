// SPDX-License-Identifier: MIT
#include "core/codegen/launch_size.h"

#include <gtest/gtest.h>

#include <random>

#include "core/ir/build.h"
#include "core/ir/context.h"

namespace uopd::codegen {
namespace {

using ir::Op;
using ir::UOp;

const std::vector<std::string> kVariables = {"m", "n"};

class LaunchSizeTest : public ::testing::Test {
 protected:
  UOp Div(UOp a, int64_t b) { return ir::Alu(ctx_, Op::FLOORDIV, {a, ctx_.Idx(b)}); }

  ir::UOpContext ctx_;
  const UOp m_ = ir::Variable(ctx_, "m", 0, 100), n_ = ir::Variable(ctx_, "n", -50, 1000);
};

TEST_F(LaunchSizeTest, IsOneUnlessSaidOtherwise) {
  EXPECT_EQ(LaunchSize().Evaluate({}), 1);
  EXPECT_EQ(LaunchSize(7).Evaluate({}), 7);
  EXPECT_TRUE(LaunchSize::Of(ctx_.Idx(12), kVariables)->is_constant());
}

TEST_F(LaunchSizeTest, EvaluatesAndComesBackFromBytes) {
  const UOp sum = ir::Add(ctx_, ir::Mul(ctx_, m_, ctx_.Idx(3)), n_);
  struct Case {
    UOp size;
    std::function<int64_t(int64_t, int64_t)> want;
  };
  const Case cases[] = {
      {n_, [](int64_t, int64_t n) { return n; }},
      {sum, [](int64_t m, int64_t n) { return 3 * m + n; }},
      {ir::Add(ctx_, sum, sum), [](int64_t m, int64_t n) { return 2 * (3 * m + n); }},
      {Div(ir::Add(ctx_, m_, ctx_.Idx(7)), 8), [](int64_t m, int64_t) { return (m + 7) / 8; }},
      {ir::Alu(ctx_, Op::MAX, {sum, ctx_.Idx(0)}),
       [](int64_t m, int64_t n) { return std::max<int64_t>(3 * m + n, 0); }},
      {ir::Alu(ctx_, Op::CMOD, {n_, m_}), [](int64_t m, int64_t n) { return m == 0 ? 0 : n % m; }},
      {ir::Alu(ctx_, Op::NEG, {m_}), [](int64_t m, int64_t) { return -m; }},
  };
  for (const Case& c : cases) {
    const auto size = LaunchSize::Of(c.size, kVariables);
    ASSERT_TRUE(size.ok()) << size.status();
    EXPECT_FALSE(size->is_constant());
    std::string bytes;
    size->Encode(bytes);
    ByteReader in(bytes);
    LaunchSize back;
    ASSERT_TRUE(LaunchSize::Decode(in, 2, back));
    EXPECT_TRUE(in.done());
    EXPECT_EQ(back, *size);
    for (const int64_t m : {0, 1, 9, 100}) {
      for (const int64_t n : {-50, 0, 1000}) {
        const int64_t values[] = {m, n};
        EXPECT_EQ(back.Evaluate(values), c.want(m, n)) << m << " " << n;
      }
    }
  }
}

TEST_F(LaunchSizeTest, SaysWhatItCannotDo) {
  const auto loads =
      LaunchSize::Of(ir::Range(ctx_, ctx_.Idx(3), 0, ir::AxisType::LOOP), kVariables);
  EXPECT_EQ(StatusText(loads.status()), "a launch dimension depends on RANGE");
  UOp size = m_;
  for (size_t i = 0; i < LaunchSize::kMaxSteps; ++i) {
    size = ir::Alu(ctx_, Op::MAX, {ir::Mul(ctx_, size, n_), m_});
  }
  EXPECT_TRUE(absl::IsUnimplemented(LaunchSize::Of(size, kVariables).status()));
}

// Whatever the bytes are: refused, or a size that can be evaluated.
TEST_F(LaunchSizeTest, NoBytesDoHarm) {
  std::string good;
  LaunchSize::Of(Div(ir::Add(ctx_, ir::Mul(ctx_, m_, ctx_.Idx(3)), n_), 4), kVariables)
      ->Encode(good);
  std::mt19937_64 random(7);
  int accepted = 0;
  for (int i = 0; i < 20000; ++i) {
    std::string bytes = good.substr(0, random() % (good.size() + 1));
    for (int flips = static_cast<int>(random() % 4); flips > 0 && !bytes.empty(); --flips) {
      bytes[random() % bytes.size()] = static_cast<char>(random());
    }
    ByteReader in(bytes);
    LaunchSize size;
    if (!LaunchSize::Decode(in, 2, size)) continue;
    ++accepted;
    const int64_t values[] = {INT64_MAX, INT64_MIN};
    size.Evaluate(values);
  }
  EXPECT_GT(accepted, 100);
}

TEST_F(LaunchSizeTest, GeometryComesBack) {
  LaunchGeometry geometry;
  geometry.grid[0] = *LaunchSize::Of(m_, kVariables);
  geometry.grid[2] = 3;
  geometry.block[1] = *LaunchSize::Of(Div(n_, 2), kVariables);
  geometry.shared_bytes = 99;
  geometry.maps = {{1, 2, 128, {100, 7}, {208}, {64, 8}}, {0, 4, 32, {9}, {}, {8}}};
  std::string bytes;
  geometry.Encode(bytes);
  ByteReader in(bytes);
  LaunchGeometry back;
  ASSERT_TRUE(LaunchGeometry::Decode(in, 2, back));
  EXPECT_EQ(back, geometry);
  ByteReader fewer(bytes);
  EXPECT_FALSE(LaunchGeometry::Decode(fewer, 1, back));  // names a variable that is not there
  for (size_t n = 0; n < bytes.size(); ++n) {
    ByteReader cut(std::string_view(bytes).substr(0, n));
    EXPECT_FALSE(LaunchGeometry::Decode(cut, 2, back));
  }
  geometry.maps[0].strides[0] = 200;  // no multiple of 16 bytes
  bytes.clear();
  geometry.Encode(bytes);
  ByteReader wrong(bytes);
  EXPECT_FALSE(LaunchGeometry::Decode(wrong, 2, back));
}

TEST(LaunchGeometryTest, IsEvaluatedForTheValuesOfALaunch) {
  ir::UOpContext ctx;
  const UOp n = ir::Variable(ctx, "n", 0, 100);
  const UOp blocks = ir::Alu(ctx, Op::FLOORDIV, {ir::Add(ctx, n, ctx.Idx(31)), ctx.Idx(32)});
  LaunchGeometry geometry;
  geometry.grid[0] = *LaunchSize::Of(blocks, std::vector<std::string>{"n"});
  geometry.grid[1] = 4;
  geometry.block[0] = 32;
  geometry.shared_bytes = 512;
  const auto at = [&](int64_t value) { return geometry.At(std::span(&value, 1)); };
  const LaunchShape shape = at(33);
  EXPECT_EQ(shape.grid[0], 2);
  EXPECT_EQ(shape.grid[1], 4);
  EXPECT_EQ(shape.grid[2], 1);
  EXPECT_EQ(shape.block[0], 32);
  EXPECT_EQ(shape.shared_bytes, 512);
  EXPECT_FALSE(shape.empty());
  for (const int64_t none : {0, -100}) EXPECT_TRUE(at(none).empty()) << none;
}

}  // namespace
}  // namespace uopd::codegen
