// SPDX-License-Identifier: MIT
// Generated cases of operations: shapes, dtypes and special values against references in double,
// gradients by central differences, and gradients of gradients by central differences of gradients.
#pragma once
#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include "tests/unit/client/cpp/gradient_check.h"

namespace uopd::client {

// Shapes that operations get wrong: rank 0, no elements, odd lengths, ones.
inline const std::vector<Dims>& OddShapes() {
  static const auto* const shapes = new std::vector<Dims>{{}, {0}, {1}, {7}, {3, 0, 2}, {3, 1, 5}};
  return *shapes;
}
// The distance from 1 to the next number of the dtype.
inline double Epsilon(Dtype d) {
  switch (d) {
    case Dtype::F16:
      return 0x1p-10;
    case Dtype::BF16:
      return 0x1p-7;
    case Dtype::F32:
      return 0x1p-23;
    default:
      return 0x1p-52;
  }
}
// What is lost to numbers below the smallest normal one.
inline double Smallest(Dtype d) {
  return d == Dtype::F16 ? 0x1p-24 : d == Dtype::F64 ? 0x1p-1060 : 0x1p-125;
}

class OpCases : public OperationTest {
 protected:
  // |got - want| <= ulps * epsilon * |want| for every element; NaN equals NaN.
  static void ExpectNear(const std::vector<double>& got, const std::vector<double>& want,
                         Dtype dtype, double ulps, const std::string& what,
                         const std::vector<double>& at = {}) {
    ASSERT_EQ(got.size(), want.size()) << what;
    for (size_t i = 0; i < got.size(); ++i) {
      const double rounded = ir::IsFloat(dtype) ? ir::RoundTo(dtype, want[i]) : want[i];
      const bool same =
          got[i] == rounded || (std::isnan(got[i]) && std::isnan(rounded)) ||
          std::abs(got[i] - want[i]) <= ulps * Epsilon(dtype) * std::abs(want[i]) + Smallest(dtype);
      EXPECT_TRUE(same) << what << " of " << ir::Name(dtype) << ", element " << i
                        << (at.empty() ? "" : " at " + std::to_string(at[i])) << ": " << got[i]
                        << ", not " << want[i];
      if (!same) return;
    }
  }

  // d(sum w f(x))/dx differentiated again along weights, against central differences of the first
  // gradient.
  void CheckSecondGradient(const std::vector<std::pair<Dims, std::vector<double>>>& inputs,
                           const std::function<Tensor(const std::vector<Tensor>&)>& f,
                           double tolerance = 1e-5) {
    // The sum of all elements of all gradients, each with a weight of its own.
    auto first = [&](const std::vector<Tensor>& in) {
      const Tensor y = f(in);
      EXPECT_TRUE(y.status().ok()) << y.status();
      const auto g = Gradient((y * Some(y.dims(), 98)).Sum(), in);
      EXPECT_TRUE(g.ok()) << g.status();
      Tensor sum;
      for (size_t i = 0; g.ok() && i < g->size(); ++i) {
        const Tensor part = ((*g)[i] * Some((*g)[i].dims(), 90 + static_cast<int>(i))).Sum();
        sum = i == 0 ? part : sum + part;
      }
      return sum;
    };
    CheckGradient(
        inputs, [&](const std::vector<Tensor>& in) { return first(in).Reshape({1}); }, tolerance);
  }
};

}  // namespace uopd::client
