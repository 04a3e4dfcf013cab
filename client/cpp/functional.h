// SPDX-License-Identifier: MIT
// What networks are made of, as functions of tensors. Errors and promotion as in tensor.h;
// everything is differentiable. In a namespace of their own, as layers (nn.h) have the same names.
#pragma once
#include <optional>

#include "client/cpp/tensor.h"

namespace uopd::client::fn {

// Spatial numbers have one entry for each spatial axis, or one for all.
struct ConvOptions {
  Dims stride = {1}, padding = {0}, dilation = {1};  // padding at both sides
  int64_t groups = 1;
};
// x (n, in, spatial...), weight (out, in / groups, kernel...), bias (out) or empty. Cross
// correlation, as everywhere.
Tensor Conv(const Tensor& x, const Tensor& weight, const Tensor& bias = {},
            const ConvOptions& options = {}, Site site = Site::current());

struct PoolOptions {
  Dims stride = {}, padding = {0}, dilation = {1};  // no stride: the kernel
  bool count_padding = true;                        // of averages: padding counts as zeros
};
// Over the axes after the first two. Padding never wins a maximum.
Tensor MaxPool(const Tensor& x, const Dims& kernel, const PoolOptions& options = {},
               Site site = Site::current());
Tensor AvgPool(const Tensor& x, const Dims& kernel, const PoolOptions& options = {},
               Site site = Site::current());

// (x - mean) / sqrt(var + epsilon) * weight + bias over the last `axes` axes; weight and bias may
// be empty. Computed in f32 or wider, the result has the dtype of x.
Tensor LayerNorm(const Tensor& x, const Tensor& weight, const Tensor& bias, int64_t axes = 1,
                 double epsilon = 1e-5, Site site = Site::current());
// x / sqrt(mean of squares + epsilon) * weight over the last axis.
Tensor RmsNorm(const Tensor& x, const Tensor& weight, double epsilon = 1e-5,
               Site site = Site::current());
// Axis 1 with given statistics: (x - mean) / sqrt(var + epsilon) * weight + bias, all of shape (c).
Tensor BatchNorm(const Tensor& x, const Tensor& mean, const Tensor& var, const Tensor& weight,
                 const Tensor& bias, double epsilon = 1e-5, Site site = Site::current());

// Rotary position embedding: the halves of the last axis are coordinates of points that are turned
// by the angles, whose cosines and sines broadcast against one half. J. Su et al., RoFormer, 2021;
// the halves as in GPT-NeoX.
Tensor Rotate(const Tensor& x, const Tensor& cos, const Tensor& sin, Site site = Site::current());

struct AttentionOptions {
  bool causal = false;          // query i of L sees keys up to i + S - L
  std::optional<double> scale;  // 1 / sqrt(d)
};
// softmax(q k^T scale + mask) v. q (..., heads, L, d), k (..., kv, S, d), v (..., kv, S, e) where
// kv divides heads: neighbouring heads share keys. S may be symbolic (not if causal). The mask,
// which may be empty, broadcasts to (..., heads, L, S): bools say what is seen, floats are added.
Tensor Attention(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& mask = {},
                 const AttentionOptions& options = {}, Site site = Site::current());

// Rows of weight (count, width): one for each integer, along a new last axis.
Tensor Embedding(const Tensor& weight, const Tensor& index, Site site = Site::current());

}  // namespace uopd::client::fn
