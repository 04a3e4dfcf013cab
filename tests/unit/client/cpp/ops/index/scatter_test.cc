// SPDX-License-Identifier: MIT
// Scattering and selecting, against loops.
#include <random>

#include "tests/unit/client/cpp/ops/op_cases.h"
#include "uopd/indexing.h"

namespace uopd::client::scatter_cases {
namespace {

using fn::ScatterMode;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

class ScatterTest : public OpCases {};

struct Case {
  Dims x, index, src;
  int64_t axis;
};
const std::vector<Case>& Cases() {
  static const auto* const cases =
      new std::vector<Case>{{{4}, {6}, {6}, 0},          {{3, 4}, {5, 4}, {5, 4}, 0},
                            {{3, 4}, {2, 3}, {3, 5}, 1}, {{2, 3, 2}, {2, 4, 1}, {2, 4, 2}, 1},
                            {{3}, {0}, {2}, 0},          {{0, 2}, {1, 2}, {1, 2}, 0},
                            {{4, 3}, {7, 2}, {7, 2}, -2}};
  return *cases;
}

// Calls f(position in x, position in src) for each element of the index that is in range.
void ForEach(const Case& c, const std::vector<double>& index,
             const std::function<void(size_t, size_t)>& f) {
  const auto axis =
      static_cast<size_t>(c.axis < 0 ? c.axis + static_cast<int64_t>(c.x.size()) : c.axis);
  for (int64_t i = 0; i < ir::Product(c.index); ++i) {
    std::vector<int64_t> at(c.index.size());
    int64_t rest = i;
    for (size_t k = at.size(); k-- > 0;) at[k] = rest % c.index[k], rest /= c.index[k];
    int64_t from = 0, to = 0, p = static_cast<int64_t>(index[static_cast<size_t>(i)]);
    if (p < 0) p += c.x[axis];
    if (p < 0 || p >= c.x[axis]) continue;
    for (size_t k = 0; k < at.size(); ++k) {
      from = from * c.src[k] + at[k];
      to = to * c.x[k] + (k == axis ? p : at[k]);
    }
    f(static_cast<size_t>(to), static_cast<size_t>(from));
  }
}

TEST_F(ScatterTest, ScattersAndReduces) {
  std::mt19937_64 random(3);
  for (const Case& c : Cases()) {
    for (const Dtype d : {Dtype::F32, Dtype::F64, Dtype::F16, Dtype::BF16, Dtype::I32, Dtype::I8}) {
      const int64_t n =
          c.x[static_cast<size_t>(c.axis < 0 ? c.axis + static_cast<int64_t>(c.x.size()) : c.axis)];
      std::vector<double> at(static_cast<size_t>(ir::Product(c.index)));
      for (double& v : at)
        v = static_cast<double>(std::uniform_int_distribution<int64_t>(-n - 1, n)(random));
      auto whole = [&](const Dims& dims, int salt) {
        std::vector<double> v = Scattered(static_cast<size_t>(ir::Product(dims)), salt);
        for (double& e : v) e = std::round(e * 4);
        return In(dims, v, d);
      };
      const Tensor x = whole(c.x, 1), src = whole(c.src, 2), index = In(c.index, at, Dtype::I32);
      const auto self = Out(x), from = Out(src);
      std::vector<double> want = self;
      ForEach(c, at, [&](size_t to, size_t i) { want[to] = from[i]; });
      const Tensor y = fn::Scatter(x, c.axis, index, src);
      ASSERT_TRUE(y.status().ok()) << y.status();
      EXPECT_EQ(y.dtype(), d);
      EXPECT_EQ(Out(y), want);
      for (const bool include : {true, false}) {
        for (const auto mode : {ScatterMode::kSum, ScatterMode::kProd, ScatterMode::kMean,
                                ScatterMode::kAmax, ScatterMode::kAmin}) {
          want = self;
          std::vector<int> count(self.size(), include ? 1 : 0);
          ForEach(c, at, [&](size_t to, size_t i) {
            const double v = from[i];
            double& w = want[to];
            if (count[to]++ == 0)
              w = v;
            else if (mode == ScatterMode::kSum || mode == ScatterMode::kMean)
              w += v;
            else if (mode == ScatterMode::kProd)
              w *= v;
            else if (mode == ScatterMode::kAmax)
              w = std::max(w, v);
            else
              w = std::min(w, v);
          });
          for (size_t i = 0; i < want.size(); ++i) {
            if (mode == ScatterMode::kMean) want[i] /= std::max(count[i], 1);
            if (mode == ScatterMode::kMean && !ir::IsFloat(d)) want[i] = std::floor(want[i]);
            if (!ir::IsFloat(d))
              want[i] = static_cast<double>(ir::WrapTo(d, static_cast<int64_t>(want[i])));
          }
          const Tensor z = fn::ScatterReduce(x, c.axis, index, src, mode, include);
          ASSERT_TRUE(z.status().ok()) << z.status();
          EXPECT_EQ(z.dtype(), d);
          if (!ir::IsFloat(d)) {
            EXPECT_EQ(Out(z), want);
          } else {
            ExpectNear(Out(z), want, d, 2, "scatter_reduce");
          }
        }
      }
    }
  }
}

TEST_F(ScatterTest, TakesNumbersAndRefusesMisfits) {
  const Tensor x = Ramp({3}), at = In({2}, {0, 2}, Dtype::I32);
  EXPECT_THAT(Out(fn::Scatter(x, 0, at, 9)), ElementsAre(9, 1, 9));
  EXPECT_FALSE(fn::Scatter(x, 1, at, 9).status().ok());
  EXPECT_FALSE(fn::Scatter(x, 0, Ramp({2}), 9).status().ok());
  EXPECT_FALSE(fn::Scatter(x, 0, at, Ramp({1})).status().ok());
  EXPECT_FALSE(fn::Scatter(Ramp({2, 2}), 0, at, 1).status().ok());
  EXPECT_FALSE(fn::ScatterReduce(x, 0, at, Tensor(), ScatterMode::kSum).status().ok());
}

TEST_F(ScatterTest, Gradients) {
  const Tensor at = In({3, 2}, {0, 1, 1, 1, 0, 3}, Dtype::I32);
  CheckGradient({Input({4, 2}, 1), Input({3, 2}, 2)},
                [&](const std::vector<Tensor>& t) { return fn::Scatter(t[0], 0, at, t[1]); });
  for (const bool include : {true, false}) {
    for (const auto mode : {ScatterMode::kSum, ScatterMode::kProd, ScatterMode::kMean,
                            ScatterMode::kAmax, ScatterMode::kAmin}) {
      auto f = [&](const std::vector<Tensor>& t) {
        return fn::ScatterReduce(t[0], 0, at, t[1], mode, include);
      };
      CheckGradient({Input({4, 2}, 1), Input({3, 2}, 2)}, f);
      CheckSecondGradient({Input({4, 2}, 1), Input({3, 2}, 2)},
                          [&](const std::vector<Tensor>& t) { return f(t).Square(); });
    }
  }
}

TEST_F(ScatterTest, SelectsByMasks) {
  const Tensor x = Ramp({2, 3}, 1, 1), mask = In({2, 3}, {0, 1, 0, 1, 1, 0}, Dtype::Bool);
  EXPECT_THAT(Out(fn::MaskedSelect(x, mask, 3)), ElementsAre(2, 4, 5));
  EXPECT_THAT(Out(fn::MaskedSelect(x, mask, 2)), ElementsAre(2, 4));
  EXPECT_THAT(Out(fn::MaskedSelect(x, mask, 5, -1)), ElementsAre(2, 4, 5, -1, -1));
  EXPECT_THAT(Out(fn::MaskedSelect(x, In({3}, {1, 0, 0}, Dtype::Bool), 2)), ElementsAre(1, 4));
  EXPECT_THAT(Out(fn::MaskedSelect(Ramp({0}), In({0}, {}, Dtype::Bool), 2, 7)), ElementsAre(7, 7));
  EXPECT_THAT(Out(fn::MaskedSelect(x, mask, 0)), IsEmpty());
  EXPECT_THAT(Out(fn::Nonzero(mask, 4)), ElementsAre(0, 1, 1, 0, 1, 1, -1, -1));
  EXPECT_THAT(Out(fn::Nonzero(In({3}, {0, NAN, 2}), 2)), ElementsAre(1, 2));
  EXPECT_EQ(fn::Nonzero(mask, 4).dims(), (Dims{4, 2}));
  EXPECT_FALSE(fn::MaskedSelect(x, x, 2).status().ok());
  EXPECT_FALSE(fn::MaskedSelect(x, mask, -2).status().ok());
  CheckGradient({Input({2, 3})},
                [&](const std::vector<Tensor>& t) { return fn::MaskedSelect(t[0], mask, 4, 2); });
}

}  // namespace
}  // namespace uopd::client::scatter_cases
