// SPDX-License-Identifier: MIT
// The functions of movement.h, against loops over indices.
#include "tests/unit/client/cpp/ops/op_cases.h"
#include "uopd/movement.h"

namespace uopd::client::arrange_cases {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

class ArrangeTest : public OpCases {
 protected:
  using Index = std::vector<int64_t>;
  // want(index) is the position in x's row-major order, or -1 for `other`.
  void ExpectMoved(const Tensor& y, const Tensor& x, const Dims& dims,
                   const std::function<int64_t(const Index&)>& from, double other = 0) {
    ASSERT_TRUE(y.status().ok()) << y.status();
    ASSERT_EQ(y.dims(), dims);
    const auto in = Out(x);
    std::vector<double> want;
    Index at(dims.size(), 0);
    for (int64_t i = 0; i < ir::Product(dims); ++i) {
      int64_t rest = i;
      for (size_t k = dims.size(); k-- > 0;) at[k] = rest % dims[k], rest /= dims[k];
      const int64_t p = from(at);
      want.push_back(p < 0 ? other : in.at(static_cast<size_t>(p)));
    }
    EXPECT_EQ(Out(y), want);
  }
};

TEST_F(ArrangeTest, Rolls) {
  for (const int64_t n : {0, 1, 4, 5}) {
    for (const int64_t by : {-7, -1, 0, 1, 3, 12}) {
      const Tensor x = Ramp({2, n});
      ExpectMoved(fn::Roll(x, {by}, {1}), x, {2, n},
                  [&](const Index& i) { return i[0] * n + (((i[1] - by) % n) + n) % n; });
      ExpectMoved(fn::Roll(x, {by}), x, {2, n}, [&](const Index& i) {
        const int64_t p = i[0] * n + i[1] - by, whole = 2 * n;
        return ((p % whole) + whole) % whole;
      });
    }
  }
  const Tensor x = Ramp({3, 4});
  ExpectMoved(fn::Roll(x, {1, -1}, {0, 1}), x, {3, 4},
              [](const Index& i) { return (i[0] + 2) % 3 * 4 + (i[1] + 1) % 4; });
  EXPECT_FALSE(fn::Roll(x, {1}, {2}).status().ok());
  EXPECT_FALSE(fn::Roll(x, {1, 2}).status().ok());
  CheckGradient({Input({3, 2})},
                [](const std::vector<Tensor>& t) { return fn::Roll(t[0], {1}, {0}); });
}

TEST_F(ArrangeTest, PadsInAllModes) {
  using fn::PadMode;
  constexpr int64_t n = 5;
  for (const auto mode :
       {PadMode::kConstant, PadMode::kReflect, PadMode::kReplicate, PadMode::kCircular}) {
    for (const auto& [before, after] :
         {std::pair<int64_t, int64_t>{0, 0}, {1, 2}, {4, 4}, {-1, 2}, {2, -2}, {-2, -2}}) {
      const int64_t cut = std::max<int64_t>(0, -before);
      // What is mirrored or repeated is the whole axis; its first element is `cut` before the
      // result's.
      const bool whole = mode == PadMode::kReflect || mode == PadMode::kReplicate;
      const int64_t left = whole ? n : n - cut - std::max<int64_t>(0, -after);
      if (mode == PadMode::kReflect && std::max(before, after) >= left) continue;
      if (mode == PadMode::kCircular && std::max(before, after) > left) continue;
      const Tensor x = Ramp({2, n}, 1, 1);
      const int64_t start = std::max<int64_t>(0, before), to = n + before + after;
      ExpectMoved(
          fn::Pad(x, {0, before}, {0, after}, mode, 9), x, {2, to},
          [&](const Index& i) {
            int64_t p = i[1] - start + (whole ? cut : 0);
            if (p < 0 || p >= left) {
              if (mode == PadMode::kConstant) return int64_t{-1};
              if (mode == PadMode::kReflect) p = p < 0 ? -p : 2 * (left - 1) - p;
              if (mode == PadMode::kReplicate) p = p < 0 ? 0 : left - 1;
              if (mode == PadMode::kCircular) p = ((p % left) + left) % left;
            }
            return i[0] * n + (whole ? 0 : cut) + p;
          },
          9);
      CheckGradient({Input({n})}, [&](const std::vector<Tensor>& t) {
        return fn::Pad(t[0], {before}, {after}, mode, 2);
      });
    }
  }
  const Tensor corners = fn::Pad(Ramp({2, 2}), {1, 1}, {0, 1}, PadMode::kReflect);
  EXPECT_THAT(Out(corners), ElementsAre(3, 2, 3, 2, 1, 0, 1, 0, 3, 2, 3, 2));
  EXPECT_THAT(Out(fn::Pad(Ramp({2}), {2}, {2}, PadMode::kCircular)), ElementsAre(0, 1, 0, 1, 0, 1));
  EXPECT_FALSE(fn::Pad(Ramp({2}), {2}, {0}, PadMode::kReflect).status().ok());
  EXPECT_FALSE(fn::Pad(Ramp({2}), {3}, {0}, PadMode::kCircular).status().ok());
  EXPECT_FALSE(fn::Pad(Ramp({0}), {1}, {0}, PadMode::kReplicate).status().ok());
  EXPECT_FALSE(fn::Pad(Ramp({2}), {-2}, {-1}).status().ok());
  EXPECT_FALSE(fn::Pad(Ramp({2}), {1, 1}, {1, 1}).status().ok());
  EXPECT_THAT(Out(fn::Pad(Ramp({3}), {2}, {-4}, PadMode::kReflect)), ElementsAre(2));
  EXPECT_FALSE(fn::Pad(Ramp({3}), {2}, {-6}, PadMode::kReflect).status().ok());
  EXPECT_EQ(fn::Pad(Ramp({0}), {1}, {2}, PadMode::kConstant, 3).dims(), (Dims{3}));
}

TEST_F(ArrangeTest, Repeats) {
  const Tensor x = Ramp({2, 3});
  ExpectMoved(fn::RepeatInterleave(x, 2, 1), x, {2, 6},
              [](const Index& i) { return i[0] * 3 + i[1] / 2; });
  ExpectMoved(fn::RepeatInterleave(x, 3, 0), x, {6, 3},
              [](const Index& i) { return i[0] / 3 * 3 + i[1]; });
  ExpectMoved(fn::RepeatInterleave(x, 2), x, {12}, [](const Index& i) { return i[0] / 2; });
  ExpectMoved(fn::Tile(x, {2}), x, {2, 6}, [](const Index& i) { return i[0] * 3 + i[1] % 3; });
  ExpectMoved(fn::Tile(x, {2, 1, 1}), x, {2, 2, 3}, [](const Index& i) { return i[1] * 3 + i[2]; });
  EXPECT_THAT(Out(fn::RepeatInterleave(x, 0)), IsEmpty());
  EXPECT_FALSE(fn::RepeatInterleave(x, -1).status().ok());
  CheckGradient({Input({2, 3})},
                [](const std::vector<Tensor>& t) { return fn::RepeatInterleave(t[0], 2, 1); });
}

TEST_F(ArrangeTest, Diagonals) {
  for (const auto& [rows, columns] :
       {std::pair<int64_t, int64_t>{3, 3}, {2, 4}, {4, 2}, {1, 1}, {0, 3}}) {
    for (int64_t offset = -5; offset <= 5; ++offset) {
      const int64_t row = std::max<int64_t>(0, -offset), column = std::max<int64_t>(0, offset);
      const int64_t length = std::max<int64_t>(0, std::min(rows - row, columns - column));
      const Tensor x = Ramp({2, rows, columns});
      ExpectMoved(fn::Diagonal(x, offset, 1, 2), x, {2, length}, [&](const Index& i) {
        return (i[0] * rows + row + i[1]) * columns + column + i[1];
      });
    }
  }
  for (int64_t offset = -2; offset <= 2; ++offset) {
    const Tensor x = Ramp({3}, 1, 1);
    const int64_t n = 3 + std::abs(offset);
    ExpectMoved(fn::Diag(x, offset), x, {n, n},
                [&](const Index& i) { return i[1] - i[0] == offset ? std::min(i[0], i[1]) : -1; });
    EXPECT_EQ(Out(fn::Diag(fn::Diag(x, offset), offset)), Out(x));
  }
  EXPECT_EQ(fn::DiagEmbed(Ramp({2, 3})).dims(), (Dims{2, 3, 3}));
  EXPECT_FALSE(fn::Diagonal(Ramp({2, 2}), 0, 1, 1).status().ok());
  EXPECT_FALSE(fn::Diag(Ramp({2, 2, 2})).status().ok());
  CheckGradient({Input({3, 4})},
                [](const std::vector<Tensor>& t) { return fn::Diagonal(t[0], 1); });
  CheckGradient({Input({3})}, [](const std::vector<Tensor>& t) { return fn::Diag(t[0], -1); });
}

TEST_F(ArrangeTest, GridsAndAxes) {
  const Tensor parts[] = {Ramp({2}), Ramp({3}, 1, 10)};
  const auto ij = fn::MeshGrid(parts), xy = fn::MeshGrid(parts, true);
  EXPECT_THAT(Out(ij[0]), ElementsAre(0, 0, 0, 1, 1, 1));
  EXPECT_THAT(Out(ij[1]), ElementsAre(10, 11, 12, 10, 11, 12));
  EXPECT_EQ(xy[0].dims(), (Dims{3, 2}));
  EXPECT_THAT(Out(xy[0]), ElementsAre(0, 1, 0, 1, 0, 1));
  const Tensor x = Ramp({2, 3, 4});
  EXPECT_EQ(fn::Unflatten(x, 2, {2, -1}).dims(), (Dims{2, 3, 2, 2}));
  EXPECT_EQ(fn::Unflatten(Ramp({0, 6}), 1, {-1, 2}).dims(), (Dims{0, 3, 2}));
  EXPECT_FALSE(fn::Unflatten(x, 1, {2, -1}).status().ok());
  EXPECT_EQ(fn::FlattenAxes(x, 0, 1).dims(), (Dims{6, 4}));
  EXPECT_EQ(fn::FlattenAxes(x).dims(), (Dims{24}));
  EXPECT_EQ(fn::FlattenAxes(Ramp({})).dims(), (Dims{1}));
  EXPECT_FALSE(fn::FlattenAxes(x, 2, 1).status().ok());
  ExpectMoved(fn::MoveAxis(x, {0}, {-1}), x, {3, 4, 2},
              [](const Index& i) { return (i[2] * 3 + i[0]) * 4 + i[1]; });
  EXPECT_EQ(fn::MoveAxis(x, {0, 1}, {2, 0}).dims(), (Dims{3, 4, 2}));
  EXPECT_FALSE(fn::MoveAxis(x, {0, 0}, {1, 2}).status().ok());
  ExpectMoved(fn::Unfold(x, 1, 2, 1), x, {2, 2, 4, 2},
              [](const Index& i) { return (i[0] * 3 + i[1] + i[3]) * 4 + i[2]; });
  EXPECT_FALSE(fn::Unfold(x, 1, 4, 1).status().ok());
}

TEST_F(ArrangeTest, MakesTensors) {
  EXPECT_THAT(Out(fn::FullLike(Ramp({2}), 3)), ElementsAre(3, 3));
  EXPECT_EQ(fn::OnesLike(Ramp({2}), Dtype::I8).dtype(), Dtype::I8);
  EXPECT_FALSE(fn::FullLike(In({1}, {0}, Dtype::U8), -1).status().ok());
  EXPECT_THAT(Out(fn::Linspace(client_, 0, 1, 5)), ElementsAre(0, 0.25, 0.5, 0.75, 1));
  EXPECT_THAT(Out(fn::Linspace(client_, 5, 5, 1)), ElementsAre(5));
  EXPECT_THAT(Out(fn::Linspace(client_, 5, 5, 0)), IsEmpty());
  EXPECT_THAT(Out(fn::Linspace(client_, 0, 10, 4, Dtype::I32)), ElementsAre(0, 3, 6, 10));
  EXPECT_FALSE(fn::Linspace(client_, 0, 1, -1).status().ok());
  const auto v = Out(fn::Linspace(client_, 0.1, 0.7, 7, Dtype::F64));
  EXPECT_EQ(v.front(), 0.1);
  EXPECT_EQ(v.back(), 0.7);
}

TEST_F(ArrangeTest, RearrangesByFormula) {
  const Tensor x = Ramp({2, 6, 3});
  using Sizes = std::vector<std::pair<std::string, int64_t>>;
  auto re = [](const Tensor& t, std::string_view formula, const Sizes& sizes = {}) {
    return fn::Rearrange(t, formula, sizes);
  };
  ExpectMoved(re(x, "b n c -> c b n"), x, {3, 2, 6},
              [](const Index& i) { return (i[1] * 6 + i[2]) * 3 + i[0]; });
  ExpectMoved(re(x, "b (h w) c -> b c h w", {{"h", 2}}), x, {2, 3, 2, 3},
              [](const Index& i) { return (i[0] * 6 + i[2] * 3 + i[3]) * 3 + i[1]; });
  ExpectMoved(re(x, "b (h w) c->(b h)(c w)", {{"w", 3}}), x, {4, 9}, [](const Index& i) {
    return (i[0] / 2 * 6 + i[0] % 2 * 3 + i[1] % 3) * 3 + i[1] / 3;
  });
  ExpectMoved(re(x, "b ... -> ... b"), x, {6, 3, 2},
              [](const Index& i) { return (i[2] * 6 + i[0]) * 3 + i[1]; });
  ExpectMoved(re(x, "b ... -> b (...)"), x, {2, 18},
              [](const Index& i) { return i[0] * 18 + i[1]; });
  ExpectMoved(re(x, "a b c ... -> ... (a b c)"), x, {36}, [](const Index& i) { return i[0]; });
  ExpectMoved(re(x, "a b c -> a 1 (b c) ()"), x, {2, 1, 18, 1},
              [](const Index& i) { return i[0] * 18 + i[2]; });
  const Tensor ones = Ramp({1, 3});
  ExpectMoved(re(ones, "1 a_1 -> a_1"), ones, {3}, [](const Index& i) { return i[0]; });
  ExpectMoved(re(ones, "é β -> β é"), ones, {3, 1}, [](const Index& i) { return i[0]; });
  const Tensor none = Ramp({0, 4});
  EXPECT_EQ(re(none, "a (b c) -> (a b) c", {{"b", 2}}).dims(), (Dims{0, 2}));
  EXPECT_EQ(re(Ramp({}), "->").dims(), Dims{});
  const int64_t large = int64_t{1} << 47;
  EXPECT_EQ(
      re(Ramp({0, 0}), "(a b) (c d) -> (a c) (b d)", {{"a", large}, {"c", large}}).status().code(),
      absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(
      re(Ramp({3, 1}), "(a b) c -> a b c", {{"a", INT64_MAX}, {"b", INT64_MAX}}).status().code(),
      absl::StatusCode::kInvalidArgument);
  for (const auto& [formula, sizes] :
       std::vector<std::pair<std::string, Sizes>>{{"a b c", {}},
                                                  {"a b -> b a", {}},
                                                  {"a b c -> a b", {}},
                                                  {"a a c -> a a c", {}},
                                                  {"a (b d c -> a b c d", {}},
                                                  {"a b) c -> a b c", {}},
                                                  {"a (b (d)) c -> a b c d", {}},
                                                  {"a (b d) c -> a b d c", {}},
                                                  {"a (b d) c -> a b d c", {{"b", 4}}},
                                                  {"a (b d) c -> a b d c", {{"b", 0}}},
                                                  {"a b c -> a b c", {{"d", 2}}},
                                                  {"a b c -> a b c", {{"a", 3}}},
                                                  {"a b c -> a b c", {{"a", -1}}},
                                                  {"(... a) b -> a b ...", {}},
                                                  {"... a ... -> a ...", {}},
                                                  {"a b c 2 -> a b c 2", {}},
                                                  {"a b c d ... -> a b c d ...", {}},
                                                  {"a b* c -> a b c", {}},
                                                  {"a b 1 -> a b", {}}}) {
    EXPECT_EQ(re(x, formula, sizes).status().code(), absl::StatusCode::kInvalidArgument) << formula;
  }
  CheckGradient({Input({2, 6})}, [](const std::vector<Tensor>& t) {
    const std::pair<std::string, int64_t> sizes[] = {{"b", 2}};
    return fn::Rearrange(t[0], "a (b c) -> c (a b)", sizes);
  });
}

}  // namespace
}  // namespace uopd::client::arrange_cases
