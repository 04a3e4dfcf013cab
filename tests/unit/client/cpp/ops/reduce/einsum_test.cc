// SPDX-License-Identifier: MIT
// Formulas drawn at random, against a loop over all letters.
#include <algorithm>
#include <map>
#include <random>

#include "client/cpp/graph/graph_state.h"
#include "core/ir/graph.h"
#include "core/ir/shape.h"
#include "tests/unit/client/cpp/ops/op_cases.h"
#include "uopd/einsum.h"

namespace uopd::client::einsum_cases {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class EinsumTest : public OpCases {
 protected:
  int64_t Draw(int64_t low, int64_t high) {
    return std::uniform_int_distribution<int64_t>(low, high)(random_);
  }
  std::mt19937_64 random_{11};
};

// operands: the letters of each; sizes: of each letter.
std::vector<double> Expected(const std::vector<std::string>& letters, const std::string& result,
                             const std::map<char, int64_t>& sizes,
                             const std::vector<std::vector<double>>& values) {
  std::string all = result;
  for (const auto& l : letters) {
    for (char c : l) {
      if (all.find(c) == std::string::npos) all += c;
    }
  }
  int64_t n = 1, whole = 1;
  for (char c : result) n *= sizes.at(c);
  for (char c : all) whole *= sizes.at(c);
  std::vector<double> out(static_cast<size_t>(n));
  for (int64_t i = 0; i < whole; ++i) {
    std::map<char, int64_t> at;
    int64_t rest = i;
    for (size_t k = all.size(); k-- > 0;)
      at[all[k]] = rest % sizes.at(all[k]), rest /= sizes.at(all[k]);
    auto position = [&](const std::string& l) {
      int64_t p = 0;
      for (char c : l) p = p * sizes.at(c) + at.at(c);
      return static_cast<size_t>(p);
    };
    double product = 1;
    for (size_t k = 0; k < letters.size(); ++k) product *= values[k][position(letters[k])];
    out[position(result)] += product;
  }
  return out;
}

TEST_F(EinsumTest, AtRandom) {
  for (int round = 0; round < 150; ++round) {
    daemon_->check_schedule = round % 5 == 0;
    std::map<char, int64_t> sizes;
    for (char c : {'a', 'b', 'c', 'd', 'E'}) sizes[c] = Draw(0, 25) == 0 ? 0 : Draw(1, 3);
    std::vector<std::string> letters;
    std::vector<std::vector<double>> values;
    std::vector<Tensor> operands;
    std::string formula, seen;
    for (int64_t k = Draw(1, 4); k > 0; --k) {
      std::string l;
      Dims dims;
      for (int64_t i = Draw(0, 3); i > 0; --i) {
        l += "abcdE"[Draw(0, 4)];
        dims.push_back(sizes[l.back()]);
        if (seen.find(l.back()) == std::string::npos) seen += l.back();
      }
      letters.push_back(l);
      values.push_back(
          Scattered(static_cast<size_t>(ir::Product(dims)), static_cast<int>(Draw(0, 99))));
      operands.push_back(In(dims, values.back(), Dtype::F64));
      formula += (formula.empty() && letters.size() == 1 ? "" : ",") + l;
    }
    std::shuffle(seen.begin(), seen.end(), random_);
    std::string result =
        seen.substr(0, static_cast<size_t>(Draw(0, static_cast<int64_t>(seen.size()))));
    if (Draw(0, 2) == 0) {  // the implicit result
      std::map<char, int> times;
      for (const auto& l : letters) {
        for (char c : l) ++times[c];
      }
      result.clear();
      for (const auto& [c, count] : times) result += count == 1 ? std::string(1, c) : "";
    } else {
      formula += " -> " + result;
    }
    SCOPED_TRACE(formula);
    const Tensor y = fn::Einsum(formula, operands);
    ASSERT_TRUE(y.status().ok()) << y.status();
    Dims dims;
    for (char c : result) dims.push_back(sizes[c]);
    ASSERT_EQ(y.dims(), dims);
    const auto got = Out(y), want = Expected(letters, result, sizes, values);
    for (size_t i = 0; i < want.size(); ++i)
      ASSERT_NEAR(got[i], want[i], 1e-11 * std::max(1.0, std::abs(want[i])));
  }
}

TEST_F(EinsumTest, EllipsesMatchMatMul) {
  const Tensor a = Some({2, 1, 4, 3}, 1), b = Some({5, 3, 2}, 2);
  const Tensor pair[] = {a, b}, one[] = {a};
  for (const char* formula : {"...ij,...jk->...ik", "... i j, ... j k", "...ij,...jk"}) {
    const Tensor y = fn::Einsum(formula, pair);
    ASSERT_EQ(y.dims(), (Dims{2, 5, 4, 2})) << y.status();
    EXPECT_THAT(Out(y), ::testing::Pointwise(::testing::DoubleNear(1e-12), Out(a.MatMul(b))));
  }
  EXPECT_EQ(fn::Einsum("...->...", one).dims(), a.dims());
  EXPECT_EQ(fn::Einsum("i...->...i", one).dims(), (Dims{1, 4, 3, 2}));
  EXPECT_THAT(Out(fn::Einsum("...->", one)),
              ::testing::Pointwise(::testing::DoubleNear(1e-12), Out(a.Sum())));
}

TEST_F(EinsumTest, ChoosesTheCheaperOrder) {
  // (1 x 40) (40 x 40) (40 x 40): from the left, 3200 products; from the right, 65600.
  const Tensor chain[] = {Some({1, 40}, 1), Some({40, 40}, 2), Some({40, 40}, 3)};
  const Tensor y = fn::Einsum("ab,bc,cd->ad", chain);
  const Tensor left = chain[0].MatMul(chain[1]).MatMul(chain[2]);
  const Tensor right = chain[0].MatMul(chain[1].MatMul(chain[2]));
  // The products of the largest elementwise multiplication tell the order.
  auto most = [](const Tensor& t) {
    int64_t n = 0;
    for (ir::UOp u : ir::Toposort(t.state()->graph->ctx(), t.state()->uop)) {
      if (u.Is(ir::Op::MUL))
        n = std::max(n, ir::Product(ir::MaxDims(t.state()->graph->ctx(),
                                                *t.state()->graph->ctx().ShapeOf(u))));
    }
    return n;
  };
  EXPECT_EQ(most(y), most(left));
  EXPECT_LT(most(y), most(right));
  EXPECT_THAT(Out(y), ::testing::Pointwise(::testing::DoubleNear(1e-10), Out(left)));
}

TEST_F(EinsumTest, DtypesAndErrors) {
  const Tensor i = In({2, 2}, {1, 2, 3, 4}, Dtype::I32), h = In({2}, {1, 2}, Dtype::F16);
  const Tensor both[] = {i, h}, one[] = {i};
  EXPECT_EQ(fn::Einsum("ij,j->i", both).dtype(), Dtype::F16);
  EXPECT_THAT(Out(fn::Einsum("ij,j->i", both)), ElementsAre(5, 11));
  EXPECT_EQ(fn::Einsum("ii", one).dtype(), Dtype::I32);
  EXPECT_THAT(Out(fn::Einsum("ii", one)), ElementsAre(5));
  for (const char* formula :
       {"i", "ijk", "ij->ijk", "ij->ii", "i!", "ij,j", "......", "ij->k", "i.j"})
    EXPECT_FALSE(fn::Einsum(formula, one).status().ok()) << formula;
  const Tensor uneven[] = {Ramp({2}), Ramp({3})};
  EXPECT_THAT(std::string(fn::Einsum("i,i->", uneven).status().message()),
              HasSubstr("einsum_test.cc"));
  EXPECT_FALSE(fn::Einsum("", {}).status().ok());
}

TEST_F(EinsumTest, Gradients) {
  auto f = [](const std::vector<Tensor>& t) { return fn::Einsum("bij,jk,ki->b", t); };
  CheckGradient({Input({2, 2, 3}, 1), Input({3, 2}, 2), Input({2, 2}, 3)}, f);
  CheckSecondGradient({Input({1, 2, 2}, 1), Input({2, 1}, 2), Input({1, 2}, 3)}, f);
  CheckGradient({Input({3, 3})},
                [](const std::vector<Tensor>& t) { return fn::Einsum("ii->i", t); });
}

TEST_F(EinsumTest, TensorDotAndOuter) {
  const auto a = Scattered(24, 1), b = Scattered(24, 2);
  const Tensor x = In({2, 3, 4}, a, Dtype::F64), y = In({4, 3, 2}, b, Dtype::F64);
  std::vector<double> want(4);
  for (size_t i = 0; i < 2; ++i)
    for (size_t l = 0; l < 2; ++l)
      for (size_t j = 0; j < 3; ++j)
        for (size_t k = 0; k < 4; ++k)
          want[i * 2 + l] += a[(i * 3 + j) * 4 + k] * b[(k * 3 + j) * 2 + l];
  ExpectNear(Out(fn::TensorDot(x, y, {1, 2}, {1, 0})), want, Dtype::F64, 1e4, "tensordot");
  EXPECT_EQ(fn::TensorDotLast(x, y, 1).dims(), (Dims{2, 3, 3, 2}));
  EXPECT_EQ(fn::TensorDotLast(x, y, 0).dims(), (Dims{2, 3, 4, 4, 3, 2}));
  EXPECT_FALSE(fn::TensorDot(x, y, {0}, {0}).status().ok());
  EXPECT_FALSE(fn::TensorDot(x, y, {1, 1}, {1, 1}).status().ok());
  EXPECT_FALSE(fn::TensorDotLast(x, y, 4).status().ok());
  EXPECT_THAT(Out(fn::Outer(Ramp({2}, 1, 1), Ramp({3}))), ElementsAre(0, 1, 2, 0, 2, 4));
}

}  // namespace
}  // namespace uopd::client::einsum_cases
