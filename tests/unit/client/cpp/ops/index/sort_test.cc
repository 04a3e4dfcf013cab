// SPDX-License-Identifier: MIT
// Sort and TopK against the standard library, by counting, by selection and by the sorting network;
// their gradients.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "client/cpp/graph/graph_state.h"
#include "client/cpp/ops/index/sort_network.h"
#include "tests/unit/client/cpp/gradient_check.h"
#include "uopd/random.h"

namespace uopd::client {
namespace {

using ::testing::ElementsAre;
using ::testing::Pointwise;

class SortTest : public OperationTest {
 protected:
  // Many ties, both zeros, and a few that are no numbers.
  static std::vector<double> Tied(size_t n, int salt = 0) {
    std::vector<double> out = Scattered(n, salt);
    for (size_t i = 0; i < n; ++i) {
      out[i] = std::round(out[i] * 4) / 2;
      if (i % 37 == 5) out[i] = NAN;
      if (i % 41 == 7) out[i] = i % 2 == 0 ? INFINITY : -INFINITY;
      if (i % 13 == 2) out[i] = -0.0;
    }
    return out;
  }
};

// NaN is the largest, equal ones keep their order.
std::vector<int> Order(const std::vector<double>& x, bool descending) {
  std::vector<int> at(x.size());
  std::iota(at.begin(), at.end(), 0);
  auto less = [&](double a, double b) {
    return std::isnan(a) ? false : std::isnan(b) ? true : a < b;
  };
  std::sort(at.begin(), at.end(), [&](int a, int b) {
    const double x_a = x[static_cast<size_t>(a)], x_b = x[static_cast<size_t>(b)];
    if (descending ? less(x_b, x_a) : less(x_a, x_b)) return true;
    if (descending ? less(x_a, x_b) : less(x_b, x_a)) return false;
    return a < b;
  });
  return at;
}

TEST_F(SortTest, SortsAgainstTheLibrary) {
  const std::vector<std::vector<double>> cases = {{},
                                                  {1},
                                                  {2, 1},
                                                  {1, 2, 3},
                                                  {3, 3, 1, 3},
                                                  {NAN, 1, -INFINITY, INFINITY, NAN, 0},
                                                  Scattered(16),
                                                  Scattered(21, 3),
                                                  {1, 1, 1, 1, 1}};
  for (const auto& x : cases) {
    for (bool descending : {false, true}) {
      const auto n = static_cast<int64_t>(x.size());
      const auto [values, index] = In({n}, x, Dtype::F64).Sort(-1, descending);
      const std::vector<int> order = Order(x, descending);
      std::vector<double> want_values, want_index;
      for (int i : order) want_values.push_back(x[static_cast<size_t>(i)]), want_index.push_back(i);
      EXPECT_THAT(Out(values), Pointwise(::testing::NanSensitiveDoubleEq(), want_values)) << n;
      EXPECT_EQ(index.dtype(), Dtype::I32);
      EXPECT_EQ(Out(index), want_index) << n;
    }
  }
}

TEST_F(SortTest, SortsAnyAxisAndDtype) {
  const auto [values, index] = In({2, 3}, {5, 1, 9, 4, 2, 0}, Dtype::I32).Sort(0, true);
  EXPECT_THAT(Out(values), ElementsAre(5, 2, 9, 4, 1, 0));
  EXPECT_THAT(Out(index), ElementsAre(0, 1, 0, 1, 0, 1));
  EXPECT_THAT(Out(In({3}, {127, -128, 0}, Dtype::I8).Sort().first), ElementsAre(-128, 0, 127));
  EXPECT_THAT(Out(In({3}, {1, 0, 1}, Dtype::Bool).Sort().first), ElementsAre(0, 1, 1));
  EXPECT_EQ(In({3}, {1, 0, 1}, Dtype::Bool).Sort().first.dtype(), Dtype::Bool);
  const auto [top, where] = In({2, 4}, {3, 9, 1, 4, 8, 8, 2, 9}).TopK(2);
  EXPECT_THAT(Out(top), ElementsAre(9, 4, 9, 8));
  EXPECT_THAT(Out(where), ElementsAre(1, 3, 3, 0));
  EXPECT_THAT(Out(In({4}, {3, 9, 1, 4}).TopK(2, 0, false).first), ElementsAre(1, 3));
  EXPECT_FALSE(Ramp({2}).Sort(1).first.status().ok());
  EXPECT_FALSE(Ramp({2}).TopK(3).first.status().ok());
  CheckGradient({Input({2, 5})},
                [](const std::vector<Tensor>& t) { return t[0].Sort(-1, true).first; });
}

// The network itself, whose kernels are interpreted one by one.
TEST_F(SortTest, NetworksOfAnyLength) {
  for (const int64_t length : {1, 2, 4, 8, 16, 32, 64}) {
    for (const int64_t rows : {1, 3, 16}) {
      for (const Dtype d : {Dtype::F32, Dtype::I64, Dtype::F16}) {
        if (length * rows > 256 && d != Dtype::F32) continue;
        const int64_t n = std::max<int64_t>(1, length - length / 3);
        auto x = Tied(static_cast<size_t>(n * rows), static_cast<int>(length + rows));
        for (double& v : x) v = d != Dtype::I64 ? v : std::isfinite(v) ? 2 * v : 7;
        const Site site = Site::current();
        const Tensor order = Sorted(WordsOf(In({n, rows}, x, d), false, length, site), site)
                                 .Positions(Dtype::I32, site);
        const auto got = Out(order);
        for (int64_t r = 0; r < rows; ++r) {
          std::vector<double> column, mine;
          for (int64_t i = 0; i < n; ++i) {
            column.push_back(x[static_cast<size_t>(i * rows + r)]);
            mine.push_back(got[static_cast<size_t>(i * rows + r)]);
          }
          const std::vector<int> want = Order(column, false);
          EXPECT_EQ(mine, std::vector<double>(want.begin(), want.end()))
              << length << " " << rows << " " << ir::Name(d);
        }
      }
    }
  }
}

// Rows that are too long to compare all pairs.
TEST_F(SortTest, LongRows) {
  daemon_->check_schedule = false;  // the interpreter of kernels takes its time
  const int64_t n = 1100;
  for (const Dtype d : {Dtype::F32, Dtype::F64, Dtype::U32}) {
    auto x = Tied(static_cast<size_t>(n));
    for (double& v : x) {
      if (!ir::IsFloat(d)) v = std::isfinite(v) ? std::abs(v) * 1000 : 9;
    }
    for (const bool descending : {false, true}) {
      const std::vector<int> order = Order(x, descending);
      const auto [values, index] = In({n}, x, d).Sort(0, descending);
      EXPECT_EQ(Out(index), std::vector<double>(order.begin(), order.end())) << ir::Name(d);
      std::vector<double> want;
      for (int i : order) want.push_back(x[static_cast<size_t>(i)]);
      const auto got = Out(values);
      EXPECT_THAT(got, Pointwise(::testing::NanSensitiveDoubleEq(), want)) << ir::Name(d);
      for (size_t i = 0; i < got.size(); ++i)
        ASSERT_EQ(std::signbit(got[i]), std::signbit(want[i])) << i << " " << ir::Name(d);
      for (const int64_t k : {1, 7, 300}) {
        const auto [top, where] = In({n}, x, d).TopK(k, 0, descending);
        EXPECT_EQ(Out(where), std::vector<double>(order.begin(), order.begin() + k)) << k;
        EXPECT_THAT(Out(top), Pointwise(::testing::NanSensitiveDoubleEq(),
                                        std::vector<double>(want.begin(), want.begin() + k)));
      }
    }
  }
}

// Each element has the gradient of its place, also where it was found by the network, and that has
// a gradient itself.
TEST_F(SortTest, GradientsOfLongRows) {
  daemon_->check_schedule = false;
  const int64_t n = 1100;
  const Tensor x = Some({n}), w = Some({n}, 5);
  const std::vector<int> order = Order(Scattered(static_cast<size_t>(n)), true);
  const auto weights = Scattered(static_cast<size_t>(n), 5);
  const Tensor targets[] = {x};
  const Tensor sorted = x.Sort(-1, true).first;
  const auto first = Gradient((sorted * w).Sum(), targets);
  ASSERT_TRUE(first.ok()) << first.status();
  // d/dw of the sum of the gradient times u is u in sorted order.
  const Tensor u = Some({n}, 6), second[] = {w};
  const auto again = Gradient(((*first)[0] * u).Sum(), second);
  ASSERT_TRUE(again.ok()) << again.status();
  const auto others = Scattered(static_cast<size_t>(n), 6);
  std::vector<double> want(static_cast<size_t>(n)), want_again = want;
  for (size_t i = 0; i < want.size(); ++i) {
    want[static_cast<size_t>(order[i])] = weights[i];
    want_again[i] = others[static_cast<size_t>(order[i])];
  }
  EXPECT_EQ(Out((*again)[0]), want_again);
  EXPECT_EQ(Out((*first)[0]), want);
  const auto top = Gradient((x.TopK(3).first * In({3}, {1, 2, 3}, Dtype::F64)).Sum(), targets);
  ASSERT_TRUE(top.ok()) << top.status();
  std::fill(want.begin(), want.end(), 0);
  for (size_t i = 0; i < 3; ++i) want[static_cast<size_t>(order[i])] = static_cast<double>(i + 1);
  EXPECT_EQ(Out((*top)[0]), want);
}

TEST_F(SortTest, WhatOnlyTheGradientNeedsIsNotSent) {
  const Tensor x = client_.Empty({4096});
  const auto forward = Export(std::vector{x.Sort().second});
  const auto values = Export(std::vector{x.Sort().first});
  ASSERT_TRUE(forward.ok() && values.ok());
  EXPECT_LT(values->nodes, forward->nodes + 100);
}

TEST_F(SortTest, Permutations) {
  for (const int64_t n : {0, 1, 2, 50, 64, 65}) {
    auto got = Out(fn::RandPerm(client_, n, Dtype::I32));
    std::sort(got.begin(), got.end());
    std::vector<double> want(static_cast<size_t>(n));
    std::iota(want.begin(), want.end(), 0);
    EXPECT_EQ(got, want);
  }
}

}  // namespace
}  // namespace uopd::client
