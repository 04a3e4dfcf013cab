// SPDX-License-Identifier: MIT
// Layers: objects that hold parameters and are called with a tensor. recurrent.h has those with a
// state.
//
// Parameters are leaves (Tensor::RequireGrad). state_dict() names what a layer keeps, as PyTorch
// and tinygrad do.
#pragma once
#include <functional>
#include <vector>

#include "uopd/client.h"
#include "uopd/functional.h"
#include "uopd/state_dict.h"

namespace uopd::client {

// y = x weight^T + bias; weight is (out, in). Weights start as those of PyTorch's nn.Linear:
// Kaiming uniform with a = sqrt(5), which is uniform within 1 / sqrt(in). The bias starts in the
// same range.
struct Linear {
  Linear(Client& client, int64_t in, int64_t out, bool with_bias = true);
  Tensor operator()(const Tensor& x, Site site = Site::current()) const;
  std::vector<Tensor> parameters() const;
  StateDict state_dict() const { return {{"weight", weight}, {"bias", bias}}; }

  Tensor weight;
  Tensor bias;  // empty without one
};

// Convolution over kernel.size() spatial axes; x is (n, in, spatial...), the weight (out, in /
// groups, kernel...). Weight and bias start as those of Linear, with in / groups times the size of
// the kernel in place of in.
struct Conv {
  Conv(Client& client, int64_t in, int64_t out, const Dims& kernel, fn::ConvOptions options = {},
       bool with_bias = true);
  Tensor operator()(const Tensor& x, Site site = Site::current()) const;
  std::vector<Tensor> parameters() const;
  StateDict state_dict() const { return {{"weight", weight}, {"bias", bias}}; }

  Tensor weight;
  Tensor bias;  // empty without one
  fn::ConvOptions options;
};
struct Conv1d : Conv {
  Conv1d(Client& client, int64_t in, int64_t out, int64_t kernel, fn::ConvOptions options = {},
         bool with_bias = true)
      : Conv(client, in, out, {kernel}, std::move(options), with_bias) {}
};
struct Conv2d : Conv {
  Conv2d(Client& client, int64_t in, int64_t out, int64_t kernel, fn::ConvOptions options = {},
         bool with_bias = true)
      : Conv(client, in, out, {kernel, kernel}, std::move(options), with_bias) {}
};
struct Conv3d : Conv {
  Conv3d(Client& client, int64_t in, int64_t out, int64_t kernel, fn::ConvOptions options = {},
         bool with_bias = true)
      : Conv(client, in, out, {kernel, kernel, kernel}, std::move(options), with_bias) {}
};

// The transpose of Conv (fn::ConvTranspose); the weight is (in, out / groups, kernel...). Weight
// and bias start within 1 / sqrt(out / groups times the size of the kernel).
struct ConvTranspose {
  ConvTranspose(Client& client, int64_t in, int64_t out, const Dims& kernel,
                fn::ConvTransposeOptions options = {}, bool with_bias = true);
  Tensor operator()(const Tensor& x, Site site = Site::current()) const;
  std::vector<Tensor> parameters() const;
  StateDict state_dict() const { return {{"weight", weight}, {"bias", bias}}; }

  Tensor weight;
  Tensor bias;  // empty without one
  fn::ConvTransposeOptions options;
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
  StateDict state_dict() const {
    return {{"weight", weight}, {"bias", bias}, {"running_mean", mean}, {"running_var", var}};
  }

  Tensor weight, bias, mean, var;
  double epsilon, momentum;
};

// fn::GroupNorm with a weight and a bias for each channel.
struct GroupNorm {
  GroupNorm(Client& client, int64_t groups, int64_t channels, double epsilon = 1e-5);
  Tensor operator()(const Tensor& x, Site site = Site::current()) const;
  std::vector<Tensor> parameters() const { return {weight, bias}; }
  StateDict state_dict() const { return {{"weight", weight}, {"bias", bias}}; }

  Tensor weight, bias;
  int64_t groups;
  double epsilon;
};
struct InstanceNorm : GroupNorm {
  InstanceNorm(Client& client, int64_t channels, double epsilon = 1e-5)
      : GroupNorm(client, channels, channels, epsilon) {}
};

// fn::LayerNorm over the last axes, which have the sizes of `shape`.
struct LayerNorm {
  LayerNorm(Client& client, Dims shape, double epsilon = 1e-5);
  LayerNorm(Client& client, int64_t width, double epsilon = 1e-5)
      : LayerNorm(client, Dims{width}, epsilon) {}
  Tensor operator()(const Tensor& x, Site site = Site::current()) const;
  std::vector<Tensor> parameters() const { return {weight, bias}; }
  StateDict state_dict() const { return {{"weight", weight}, {"bias", bias}}; }

  Tensor weight, bias;
  double epsilon;
};
// The same over the channels of images: axis 1 of x (n, channels, height, width).
struct LayerNorm2d : LayerNorm {
  LayerNorm2d(Client& client, int64_t channels, double epsilon = 1e-5)
      : LayerNorm(client, channels, epsilon) {}
  Tensor operator()(const Tensor& x, Site site = Site::current()) const;
};

struct RmsNorm {
  RmsNorm(Client& client, int64_t width, double epsilon = 1e-5);
  Tensor operator()(const Tensor& x, Site site = Site::current()) const;
  std::vector<Tensor> parameters() const { return {weight}; }
  StateDict state_dict() const { return {{"weight", weight}}; }

  Tensor weight;
  double epsilon;
};

// weight is (count, width) and starts with standard normal values.
struct Embedding {
  Embedding(Client& client, int64_t count, int64_t width);
  Tensor operator()(const Tensor& index, Site site = Site::current()) const;
  std::vector<Tensor> parameters() const { return {weight}; }
  StateDict state_dict() const { return {{"weight", weight}}; }

  Tensor weight;
};

// fn::MultiHeadAttention with its parameters. Their first values are those of PyTorch: `in` uniform
// with Glorot's bound, `out` as in Linear, biases 0.
struct MultiHeadAttention {
  MultiHeadAttention(Client& client, int64_t width, int64_t heads, bool with_bias = true);
  Tensor operator()(const Tensor& query, const Tensor& key, const Tensor& value,
                    const Tensor& mask = {}, const fn::AttentionOptions& options = {},
                    Site site = Site::current()) const;
  std::vector<Tensor> parameters() const;
  StateDict state_dict() const;

  fn::MultiHeadWeights weights;
  int64_t heads;
};

// A list of layers that are called in order.
class Sequential {
 public:
  Sequential& Add(Linear layer);
  Sequential& Add(std::function<Tensor(const Tensor&)> function);
  Tensor operator()(Tensor x) const;
  const std::vector<Tensor>& parameters() const { return parameters_; }
  // Names begin with the position of the layer in the list.
  const StateDict& state_dict() const { return state_; }

 private:
  std::vector<std::function<Tensor(const Tensor&)>> layers_;
  std::vector<Tensor> parameters_;
  StateDict state_;
};

}  // namespace uopd::client
