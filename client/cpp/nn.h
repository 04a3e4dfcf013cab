// SPDX-License-Identifier: MIT
// Layers: values that hold parameters and are called with a tensor.
#pragma once
#include <functional>
#include <vector>

#include "client/cpp/client.h"

namespace uopd::client {

// y = x weight^T + bias; weight is (out, in). Weights start as nn.Linear's elsewhere: Kaiming
// uniform with a = sqrt(5), that is uniform within 1 / sqrt(in), as is the bias.
struct Linear {
  Linear(Client& client, int64_t in, int64_t out, bool with_bias = true);
  Tensor operator()(const Tensor& x, Site site = Site::current()) const;
  std::vector<Tensor> parameters() const;

  Tensor weight;
  Tensor bias;  // empty without one
};

// Layers in order.
class Sequential {
 public:
  Sequential& Add(Linear layer);
  Sequential& Add(std::function<Tensor(const Tensor&)> function);
  Tensor operator()(Tensor x) const;
  const std::vector<Tensor>& parameters() const { return parameters_; }

 private:
  std::vector<std::function<Tensor(const Tensor&)>> layers_;
  std::vector<Tensor> parameters_;
};

}  // namespace uopd::client
