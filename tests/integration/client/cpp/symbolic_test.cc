// SPDX-License-Identifier: MIT
// Tensors whose sizes are made of variables are tensors: realised, read, assigned, recorded.
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>

#include "tests/unit/client/cpp/gradient_check.h"
#include "uopd/einsum.h"
#include "uopd/functional.h"
#include "uopd/image.h"
#include "uopd/indexing.h"
#include "uopd/jit.h"
#include "uopd/linalg.h"
#include "uopd/losses.h"
#include "uopd/movement.h"
#include "uopd/reductions.h"

namespace uopd::client {
namespace {

using ::testing::ElementsAre;
using ::testing::ElementsAreArray;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class SymbolicTest : public OperationTest {
 protected:
  Tensor N(int64_t value, int64_t min = 0, int64_t max = 8) {
    return client_.Variable("n", min, max, value);
  }
  Tensor M(int64_t value, int64_t max = 8) { return client_.Variable("m", 0, max, value); }
};

TEST_F(SymbolicTest, RealisedTensorsHaveTheSizesOfNow) {
  const Tensor x = Ramp({8, 3});
  ASSERT_TRUE(x.Realize().ok());
  const uint64_t before = client_.stats().graphs_sent;
  for (int64_t n : {3, 1, 8, 0, 5}) {
    const Tensor y = x.Narrow(0, 0, N(n)) * 2.0;
    EXPECT_TRUE(y.is_symbolic());
    EXPECT_EQ(y.dims(), (Dims{8, 3}));
    EXPECT_EQ(y.sizes(), (Dims{n, 3}));
    std::vector<double> want(static_cast<size_t>(3 * n));
    for (size_t i = 0; i < want.size(); ++i) want[i] = 2.0 * static_cast<double>(i);
    ASSERT_TRUE(y.Realize().ok());
    EXPECT_TRUE(y.is_realized());
    EXPECT_THAT(Out(y), ElementsAreArray(want));
    // What is computed from it goes on with the same sizes.
    EXPECT_THAT(Out((y + 1.0).Sum()),
                ElementsAre(std::accumulate(want.begin(), want.end(), static_cast<double>(3 * n))));
    EXPECT_THAT(Out(y.Transpose()).size(), want.size());
  }
  EXPECT_EQ(client_.stats().graphs_sent, before + 3) << "other values need no other graph";
}

TEST_F(SymbolicTest, SizesAreComparedAsSumsOfProducts) {
  const Tensor x = Ramp({20}), n = N(3), m = M(2);
  const Tensor a = x.Narrow(0, 0, n + m + 1), b = x.Narrow(0, 0, m + 1 + n);
  EXPECT_EQ(Out(a + b).size(), 6u);
  EXPECT_FALSE((a + x.Narrow(0, 0, n + m)).status().ok());
  const Tensor parts[] = {x.Narrow(0, 0, n), x.Narrow(0, 0, m)};
  EXPECT_EQ(Out(Concat(parts) + x.Narrow(0, 0, m + n)).size(), 5u);
}

TEST_F(SymbolicTest, BoxesAreCheckedWithTheValuesOfNow) {
  const Tensor x = Ramp({8});
  EXPECT_THAT(Out(x.Narrow(0, N(5), M(3))), ElementsAre(5, 6, 7));
  const Tensor beyond = x.Narrow(0, N(5), M(4));
  EXPECT_THAT(beyond.status().message(), HasSubstr("n = 5"));
  EXPECT_THAT(beyond.status().message(), HasSubstr("m = 4"));
  EXPECT_FALSE(x.Narrow(0, N(1) - 2, 1).status().ok());
  EXPECT_THAT(Out(x.Narrow(0, N(6) - 2, 2)), ElementsAre(4, 5));
  EXPECT_THAT(Out(x.Narrow(0, 0, N(5) - M(3))), ElementsAre(0, 1));
  EXPECT_FALSE(x.Narrow(0, 0, N(3) - M(5)).status().ok());
}

TEST_F(SymbolicTest, SlicesCountFromTheEndAndAreCutOff) {
  const Tensor x = Ramp({8}), part = x.Narrow(0, 0, N(5));
  EXPECT_THAT(Out(fn::Slice(part, 0, -2, std::nullopt)), ElementsAre(3, 4));
  EXPECT_THAT(Out(fn::Slice(part, 0, std::nullopt, -3)), ElementsAre(0, 1));
  EXPECT_THAT(Out(fn::Slice(part, 0, std::nullopt, 7)), ElementsAre(0, 1, 2, 3, 4));
  EXPECT_THAT(Out(fn::Slice(part, 0, -7, 2)), ElementsAre(0, 1));
  EXPECT_THAT(Out(fn::Slice(part, 0, 7, std::nullopt)), IsEmpty());
  EXPECT_THAT(Out(fn::Slice(x, 0, N(6), std::nullopt)), ElementsAre(6, 7));
  EXPECT_THAT(Out(part.Select(0, -1)), ElementsAre(4));
  EXPECT_EQ(fn::Slice(part, 0, -3, -1).dims(), (Dims{2}));
}

TEST_F(SymbolicTest, MadeOfSizes) {
  const Tensor two = N(2);
  const Size box[] = {two, 3};
  EXPECT_THAT(Out(client_.FullOf(box, 7)), ElementsAre(7, 7, 7, 7, 7, 7));
  EXPECT_THAT(Out(client_.FullOf(box, M(4), Dtype::I32).Sum()), ElementsAre(24));
  EXPECT_THAT(Out(client_.EmptyOf(box)), ElementsAre(0, 0, 0, 0, 0, 0));
  EXPECT_THAT(Out(client_.ArangeOf(0, N(4))), ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(Out(client_.ArangeOf(N(4), 7)), ElementsAre(4, 5, 6));
  EXPECT_THAT(Out(client_.ArangeOf(N(8), 7)), IsEmpty());
  EXPECT_THAT(Out(client_.ArangeOf(1, 10, client_.Variable("step", 1, 4, 4))),
              ElementsAre(1, 5, 9));
  EXPECT_THAT(Out(client_.ArangeOf(N(5), 0, -2)), ElementsAre(5, 3, 1));
  EXPECT_FALSE(client_.ArangeOf(0, 5, N(1)).status().ok()) << "the step may be 0";
}

// Beside tensors a variable is a number: it takes their dtype.
TEST_F(SymbolicTest, ValuesTakeTheDtypeOfTheOther) {
  const Tensor bytes = In({3}, {1, 2, 3}).Cast(Dtype::I8);
  EXPECT_EQ((bytes * N(2)).dtype(), Dtype::I8);
  EXPECT_THAT(Out((bytes * N(2)).Cast(Dtype::F32)), ElementsAre(2, 4, 6));
  EXPECT_EQ((In({1}, {1}) / N(2)).dtype(), Dtype::F32);
  EXPECT_EQ((N(2) + M(3)).dtype(), Dtype::I64);
}

TEST_F(SymbolicTest, OperationsThatWorkInABox) {
  const Tensor x = Ramp({8, 4}), part = x.Narrow(0, 0, N(3));
  EXPECT_THAT(Out(part.CumSum(0).Select(0, 2)), ElementsAre(12, 15, 18, 21));
  EXPECT_THAT(Out((part * -1.0).Argmax(0).Cast(Dtype::F32)), ElementsAre(0, 0, 0, 0));
  EXPECT_THAT(Out(part.Select(1, 0).Argmax(0).Cast(Dtype::F32)), ElementsAre(2));
  EXPECT_THAT(Out(part.Tril(N(0)).Select(1, 1)), ElementsAre(0, 5, 9));
  const Tensor last = client_.FromHost(std::vector<int32_t>{-1, 0}, {2});
  EXPECT_THAT(Out(part.IndexSelect(0, last)), ElementsAre(8, 9, 10, 11, 0, 1, 2, 3));
  const Tensor positions = client_.ArangeOf(0, N(2));
  EXPECT_THAT(Out(x.Select(1, 0).IndexSelect(0, positions)), ElementsAre(0, 4));
  EXPECT_THAT(Out(part.Flatten()).size(), 12u);
  EXPECT_THAT(Out(part.Bitcast(Dtype::U8).Cast(Dtype::F32)).size(), 48u);
}

TEST_F(SymbolicTest, FunctionsAreThoseOfNumbers) {
  using F = std::function<Tensor(const Tensor& x, const Size& rows)>;
  const std::vector<F> functions = {
      [](const Tensor& x, const Size&) { return fn::CumProd(x, 0); },
      [](const Tensor& x, const Size&) { return fn::CumMax(x, 0).first; },
      [](const Tensor& x, const Size&) { return fn::CumMin(x, 0).second.Cast(Dtype::F32); },
      [](const Tensor& x, const Size&) { return fn::LogCumSumExp(x, 0); },
      [](const Tensor& x, const Size&) { return fn::Quantile(x, 0.4, 0); },
      [](const Tensor& x, const Size&) { return fn::Diagonal(x, -1); },
      [](const Tensor& x, const Size&) { return fn::Diag(x.Select(1, 2), 1); },
      [](const Tensor& x, const Size&) { return fn::Trace(x.MatMul(x.Transpose())); },
      [](const Tensor& x, const Size&) { return fn::Outer(x.Select(1, 0), x.Select(1, 1)); },
      [](const Tensor& x, const Size& n) { return fn::Roll(x, std::vector{n}, {1}); },
      [&](const Tensor& x, const Size& n) {
        return x.Select(1, 0) * fn::Linspace(client_, -1, 3, n, Dtype::F32);
      },
      [](const Tensor& x, const Size&) {
        return fn::Pad(x, {1, 2}, {2, 0}, fn::PadMode::kReflect);
      },
      [](const Tensor& x, const Size&) {
        return fn::KlDiv({x.LogSoftmax(1)}, {x.Softmax(1)}, fn::Reduction::kBatchMean);
      },
      [](const Tensor& x, const Size&) { return fn::MatrixPower(x.MatMul(x.Transpose()), 2); },
      [](const Tensor& x, const Size&) {
        return fn::Interpolate(x.Transpose().Unsqueeze(0), {5});
      }};
  const Tensor whole = In({8, 4}, Scattered(32, 3));
  for (const F& f : functions) {
    for (const int64_t n : {3, 4, 8}) {
      const Tensor rows = N(n, 3);
      EXPECT_EQ(Out(f(whole.Narrow(0, 0, rows), rows)), Out(f(whole.Narrow(0, 0, n), n)))
          << &f - functions.data() << ", " << n;
    }
  }
}

TEST_F(SymbolicTest, SeveralTensorsOfPositions) {
  const Tensor x = Ramp({8, 4});
  ASSERT_TRUE(x.Realize().ok());
  const auto at = [&](std::vector<int32_t> v) {
    const auto n = static_cast<int64_t>(v.size());
    return client_.FromHost(std::move(v), {n});
  };
  const Tensor places[] = {at({0, -1, 3, 2}), at({1, -2, 0, 4})};
  auto [joined, positions] = fn::JoinAxes(x.Narrow(0, 0, N(3)), {0, 1}, places);
  EXPECT_THAT(Out(joined.IndexSelect(0, positions)), ElementsAre(1, 10, 0, 0));
  ASSERT_TRUE(fn::AssignSelected(joined, 0, positions, 50).ok());
  EXPECT_EQ(Out(x)[1], 50);
  EXPECT_EQ(Out(x)[10], 50);
  EXPECT_EQ(Out(x)[12], 12) << "beyond the sizes of now";
  EXPECT_FALSE(fn::JoinAxes(x, {0}, places).first.status().ok());
}

TEST_F(SymbolicTest, UnboundVariablesMakeShapes) {
  const Tensor u = client_.UnboundVariable("u", 1, 8), part = Ramp({8, 2}).Narrow(0, 0, u);
  EXPECT_TRUE(part.status().ok());
  EXPECT_EQ(part.dims(), (Dims{8, 2}));
  for (const Tensor& t : {part, part * 2.0, u})
    EXPECT_THAT(std::string(t.ToBytes().status().message()), HasSubstr("unbound"));
}

TEST_F(SymbolicTest, SortsWhatThereIs) {
  const double inf = std::numeric_limits<double>::infinity(), nan = std::nan("");
  const Tensor x = In({8}, {inf, 2, nan, -inf, 2, 9, 9, 9});
  for (const bool descending : {false, true}) {
    for (int64_t n : {5, 2, 8}) {
      const auto [values, positions] = x.Narrow(0, 0, N(n)).Sort(0, descending);
      const auto [want, places] = x.Narrow(0, 0, n).Sort(0, descending);
      EXPECT_EQ(Out(positions.Cast(Dtype::F32)), Out(places.Cast(Dtype::F32))) << n;
      EXPECT_EQ(Out(Where(values.IsNan(), -1.0, values)), Out(Where(want.IsNan(), -1.0, want)));
    }
  }
  const Tensor whole = In({6}, {3, 1, 2, 9, 9, 9}).Cast(Dtype::I32).Narrow(0, 0, N(3));
  EXPECT_THAT(Out(whole.TopK(2, 0, true).first.Cast(Dtype::F32)), ElementsAre(3, 2));
  EXPECT_FALSE(whole.TopK(4, 0, true).first.status().ok()) << "there are three";
}

TEST_F(SymbolicTest, RepeatsAndRolls) {
  const Tensor part = Ramp({8}).Narrow(0, 0, N(3));
  EXPECT_THAT(Out(part.Repeat({2})), ElementsAre(0, 1, 2, 0, 1, 2));
  EXPECT_THAT(Out(part.Unsqueeze(-1).Repeat({1, 2})), ElementsAre(0, 0, 1, 1, 2, 2));
  EXPECT_THAT(Out(fn::RepeatInterleave(part, 2, 0)), ElementsAre(0, 0, 1, 1, 2, 2));
  for (int64_t by : {0, 1, -1, 3, 4, -5})
    EXPECT_EQ(Out(fn::Roll(part, {by}, {0})), Out(fn::Roll(Ramp({3}), {by}, {0}))) << by;
  const Tensor positions = client_.FromHost(std::vector<int32_t>{2, -1, 0}, {3});
  EXPECT_THAT(Out(part.Gather(0, positions)), ElementsAre(2, 2, 0));
  EXPECT_THAT(Out(Ramp({8}).Gather(0, client_.ArangeOf(0, N(2)))), ElementsAre(0, 1));
}

TEST_F(SymbolicTest, ScattersWhatThereIs) {
  const Tensor values = In({4, 6}, Scattered(24, 1)), more = In({4, 6}, Scattered(24, 2));
  const Tensor positions =
      client_.FromHost(std::vector<int32_t>{0, 3, -1, 1, 5,  1, 2, 2, 0, -2, 1, 0,
                                            1, 4, 3,  0, -3, 5, 0, 0, 1, 1,  2, 2},
                       {4, 6});
  for (const int64_t axis : {0, 1}) {
    for (const int64_t n : {1, 2, 4}) {
      const auto part = [](const Tensor& t, const auto& rows) { return t.Narrow(0, 0, rows); };
      const Tensor now = client_.Variable("rows", 1, 4, n);
      EXPECT_EQ(Out(fn::Scatter(part(values, now), axis, part(positions, now), part(more, now))),
                Out(fn::Scatter(part(values, n), axis, part(positions, n), part(more, n))));
      EXPECT_EQ(Out(fn::Scatter(part(values, now), axis, part(positions, now), 7)),
                Out(fn::Scatter(part(values, n), axis, part(positions, n), 7)));
      for (const auto mode : {fn::ScatterMode::kSum, fn::ScatterMode::kProd, fn::ScatterMode::kMean,
                              fn::ScatterMode::kAmin, fn::ScatterMode::kAmax}) {
        EXPECT_EQ(Out(fn::ScatterReduce(part(values, now), axis, part(positions, now),
                                        part(more, now), mode, false)),
                  Out(fn::ScatterReduce(part(values, n), axis, part(positions, n), part(more, n),
                                        mode, false)));
      }
    }
  }
  EXPECT_FALSE(fn::Scatter(values.Narrow(0, 0, N(3)), 0, positions.Flatten(0), more).status().ok());
}

TEST_F(SymbolicTest, ConvolutionsOfSymbolicImages) {
  const Tensor x = Ramp({2, 3, 9}), w = In({2, 3, 2}, Scattered(12, 1));
  for (int64_t n : {4, 7, 9}) {
    const Tensor part = x.Narrow(2, 0, client_.Variable("n", 3, 9, n));
    const fn::ConvOptions options = {.stride = {2}, .padding = {1}};
    const Tensor y = fn::Conv(part, w, Tensor(), options);
    EXPECT_EQ(Out(y), Out(fn::Conv(x.Narrow(2, 0, n), w, Tensor(), options)));
  }
}

TEST_F(SymbolicTest, StoresWithinMemoryWhateverTheValues) {
  // A box that fits for all values, one that only the values of now make fit, and one that may be
  // longer than the memory.
  for (int64_t most : {4, 6, 12}) {
    Tensor cache = client_.Zeros({8});
    ASSERT_TRUE(cache.Realize().ok());
    const Tensor m = client_.Variable("m", 1, most, 3), n = client_.Variable("n", 0, 4, 4);
    const Size length[] = {m};
    Tensor part = cache.Narrow(0, n, m);
    ASSERT_TRUE(part.TryAssign({client_.FullOf(length, 5)}).ok());
    EXPECT_THAT(Out(cache), ElementsAre(0, 0, 0, 0, 5, 5, 5, 0)) << most;
  }
}

TEST_F(SymbolicTest, ReplaysTakeOtherValues) {
  Tensor cache = client_.Zeros({6, 2});
  ASSERT_TRUE(cache.Realize().ok());
  int64_t now = 0;
  Jit jit(client_, [&](std::span<const Tensor> in) {
    const Tensor at = client_.Variable("at", 0, 5, now);
    cache.AssignNarrow(0, at, in[0]);
    return std::vector{cache.Narrow(0, 0, at + 1) * 2.0};
  });
  uint64_t graphs = 0;
  for (now = 0; now < 6; ++now) {
    const double v = static_cast<double>(now);
    auto out = jit(std::array{In({1, 2}, {v, 1})}, std::array{VariableValue("at", now)});
    ASSERT_TRUE(out.ok()) << out.status();
    EXPECT_EQ((*out)[0].sizes(), (Dims{now + 1, 2}));
    std::vector<double> want;
    for (int64_t i = 0; i <= now; ++i) want.insert(want.end(), {2.0 * static_cast<double>(i), 2});
    EXPECT_THAT(Out((*out)[0]), ElementsAreArray(want));
    if (now == 1) graphs = client_.stats().graphs_sent;
    EXPECT_EQ(now > 1 ? client_.stats().graphs_sent : graphs, graphs);
  }
}

TEST_F(SymbolicTest, ReplaysTakeTheSizesOfTheirInputs) {
  const Tensor x = Ramp({8});
  Jit jit(client_, [&](std::span<const Tensor> in) { return std::vector{in[0] + 1.0}; });
  for (int64_t n : {2, 3, 7, 1}) {
    auto out = jit(std::array{x.Narrow(0, 0, N(n))});
    ASSERT_TRUE(out.ok()) << out.status();
    EXPECT_EQ(Out((*out)[0]).size(), static_cast<size_t>(n));
  }
  EXPECT_FALSE(
      jit(std::array{x.Narrow(0, 0, N(2) + 0 * M(1))}, std::array{VariableValue("n", 5)}).ok())
      << "two values of n";
  EXPECT_FALSE(jit(std::array{x}).ok()) << "another form";
}

TEST_F(SymbolicTest, ReplaysCheckTheirBoxes) {
  Tensor cache = client_.Zeros({8});
  ASSERT_TRUE(cache.Realize().ok());
  int64_t n = 2, m = 3;
  Jit jit(client_, [&](std::span<const Tensor>) {
    const Tensor length = M(m);
    const Size sizes[] = {length};
    Tensor part = cache.Narrow(0, N(n), length);
    part.Assign(client_.FullOf(sizes, 1));
    return std::vector{cache.Narrow(0, 0, N(n) + length).Sum()};
  });
  const auto call = [&](int64_t start, int64_t length) {
    n = start;
    m = length;
    return jit({}, std::array{VariableValue("n", start), VariableValue("m", length)});
  };
  ASSERT_TRUE(call(2, 3).ok());
  ASSERT_TRUE(call(1, 2).ok());
  ASSERT_TRUE(call(6, 2).ok());
  EXPECT_THAT(Out(cache), ElementsAre(0, 1, 1, 1, 1, 0, 1, 1));
  const size_t requests = daemon_->requests.size();
  const absl::Status beyond = call(7, 2).status();
  EXPECT_EQ(beyond.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(beyond.message(), HasSubstr("n = 7"));
  EXPECT_THAT(beyond.message(), HasSubstr("m = 2"));
  EXPECT_THAT(call(9, 1).status().message(), HasSubstr("is outside 0 to 8"));
  EXPECT_EQ(daemon_->requests.size(), requests) << "nothing was sent";
  EXPECT_THAT(Out(cache), ElementsAre(0, 1, 1, 1, 1, 0, 1, 1));
}

TEST_F(SymbolicTest, GradientsOfSymbolicParts) {
  CheckGradient({{{8, 2}, Scattered(16, 1)}, {{8, 2}, Scattered(16, 2)}},
                [&](const std::vector<Tensor>& in) {
                  const Tensor n = N(5), part = in[0].Narrow(0, 0, n) * in[1].Narrow(0, 1, n);
                  return (part * part).Sum({0});
                });
}

}  // namespace
}  // namespace uopd::client
