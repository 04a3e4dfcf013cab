// SPDX-License-Identifier: MIT
// Layers: objects that hold parameters and are called with a tensor.
#pragma once
#include <functional>
#include <vector>

#include "uopd/client.h"
#include "uopd/functional.h"

namespace uopd::client {

// y = x weight^T + bias; weight is (out, in). Weights start as those of PyTorch's nn.Linear:
// Kaiming uniform with a = sqrt(5), which is uniform within 1 / sqrt(in). The bias starts in the
// same range.
struct Linear {
  Linear(Client& client, int64_t in, int64_t out, bool with_bias = true);
  Tensor operator()(const Tensor& x, Site site = Site::current()) const;
  std::vector<Tensor> parameters() const;

  Tensor weight;
  Tensor bias;  // empty without one
};

// Convolution over two spatial axes; x is (n, in, h, w), the weight (out, in / groups, kernel,
// kernel). Weight and bias start as those of Linear, with in * kernel^2 / groups in place of in.
struct Conv2d {
  Conv2d(Client& client, int64_t in, int64_t out, int64_t kernel, fn::ConvOptions options = {},
         bool with_bias = true);
  Tensor operator()(const Tensor& x, Site site = Site::current()) const;
  std::vector<Tensor> parameters() const;

  Tensor weight;
  Tensor bias;  // empty without one
  fn::ConvOptions options;
};

// Batch normalisation of axis 1. Train uses the statistics of the batch and updates the running
// statistics, which the caller must realise together with the step. Calling the layer uses the
// running statistics.
struct BatchNorm {
  BatchNorm(Client& client, int64_t channels, double epsilon = 1e-5, double momentum = 0.1);
  Tensor operator()(const Tensor& x, Site site = Site::current()) const;
  Tensor Train(const Tensor& x, Site site = Site::current());
  std::vector<Tensor> parameters() const { return {weight, bias}; }
  std::vector<Tensor> state() const { return {mean, var}; }

  Tensor weight, bias, mean, var;
  double epsilon, momentum;
};

struct LayerNorm {
  LayerNorm(Client& client, int64_t width, double epsilon = 1e-5);
  Tensor operator()(const Tensor& x, Site site = Site::current()) const;
  std::vector<Tensor> parameters() const { return {weight, bias}; }

  Tensor weight, bias;
  double epsilon;
};

struct RmsNorm {
  RmsNorm(Client& client, int64_t width, double epsilon = 1e-5);
  Tensor operator()(const Tensor& x, Site site = Site::current()) const;
  std::vector<Tensor> parameters() const { return {weight}; }

  Tensor weight;
  double epsilon;
};

// weight is (count, width) and starts with standard normal values.
struct Embedding {
  Embedding(Client& client, int64_t count, int64_t width);
  Tensor operator()(const Tensor& index, Site site = Site::current()) const;
  std::vector<Tensor> parameters() const { return {weight}; }

  Tensor weight;
};

// A list of layers that are called in order.
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
