// SPDX-License-Identifier: MIT
// Gradients against central differences, in f64.
#pragma once
#include <functional>

#include "tests/unit/client/cpp/fixture.h"

namespace uopd::client {

// Graphs run through the scheduler too.
class OperationTest : public ClientTest {
 protected:
  OperationTest() { daemon_->check_schedule = true; }

  // Values without ties or order, between -2 and 2; `salt` tells them apart.
  static std::vector<double> Scattered(size_t n, int salt = 0) {
    std::vector<double> out(n);
    uint64_t state = 0x9E3779B97F4A7C15ull * static_cast<uint64_t>(salt + 1);
    for (double& v : out) {
      state = state * 6364136223846793005ull + 1442695040888963407ull;
      v = static_cast<double>(state >> 40) / static_cast<double>(1 << 22) - 2;
    }
    return out;
  }
  Tensor Some(const Dims& dims, int salt = 0, Dtype dtype = Dtype::F64) {
    return In(dims, Scattered(static_cast<size_t>(ir::Product(dims)), salt), dtype);
  }

  // d(sum of weights * f(inputs)) for every element of every input.
  void CheckGradient(const std::vector<std::pair<Dims, std::vector<double>>>& inputs,
                     const std::function<Tensor(const std::vector<Tensor>&)>& f,
                     double tolerance = 1e-6) {
    auto loss = [&](const std::vector<Tensor>& in) {
      const Tensor y = f(in);
      EXPECT_TRUE(y.status().ok()) << y.status();
      return (y * Some(y.dims(), 99)).Sum();
    };
    std::vector<Tensor> at;
    for (const auto& [dims, values] : inputs) at.push_back(In(dims, values, Dtype::F64));
    auto gradients = Gradient(loss(at), at);
    ASSERT_TRUE(gradients.ok()) << gradients.status();
    ASSERT_TRUE(Realize(*gradients).ok()) << Realize(*gradients);
    daemon_->check_schedule = false;  // the same graph again and again
    constexpr double kStep = 1e-5;
    for (size_t i = 0; i < inputs.size(); ++i) {
      const std::vector<double> got = Out((*gradients)[i]);
      ASSERT_EQ(got.size(), inputs[i].second.size());
      for (size_t k = 0; k < got.size(); ++k) {
        auto moved = [&](double by) {
          std::vector<Tensor> in = at;
          std::vector<double> values = inputs[i].second;
          values[k] += by;
          in[i] = In(inputs[i].first, values, Dtype::F64);
          return Out(loss(in)).at(0);
        };
        const double want = (moved(kStep) - moved(-kStep)) / (2 * kStep);
        EXPECT_NEAR(got[k], want, tolerance * std::max(1.0, std::abs(want)))
            << "element " << k << " of input " << i;
      }
    }
    daemon_->check_schedule = true;
  }
  std::pair<Dims, std::vector<double>> Input(const Dims& dims, int salt = 0) {
    return {dims, Scattered(static_cast<size_t>(ir::Product(dims)), salt)};
  }
};

}  // namespace uopd::client
