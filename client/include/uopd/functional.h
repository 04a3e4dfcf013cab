// SPDX-License-Identifier: MIT
// The building blocks of networks, as functions of tensors. Errors and promotion are as in
// tensor.h. All functions are differentiable. They have a namespace of their own, because the
// layers of nn.h have the same names.
#pragma once
#include <optional>

#include "uopd/tensor.h"

namespace uopd::client::fn {

// Each Dims has one entry for each spatial axis, or a single entry for all of them.
struct ConvOptions {
  Dims stride = {1}, padding = {0},
       dilation = {1};  // padding at both sides; a negative one cuts off
  int64_t groups = 1;
};
// x (n, in, spatial...), weight (out, in / groups, kernel...), bias (out) or empty. Computes the
// cross correlation, as other libraries do: the kernel is not flipped. INVALID_ARGUMENT if the
// kernel is larger than x with its padding.
Tensor Conv(const Tensor& x, const Tensor& weight, const Tensor& bias = {},
            const ConvOptions& options = {}, Site site = Site::current());

struct ConvTransposeOptions {
  Dims stride = {1}, padding = {0}, output_padding = {0}, dilation = {1};
  int64_t groups = 1;
};
// The transpose of Conv: what the gradient of Conv does to the gradient of its result. x (n, in,
// spatial...), weight (in, out / groups, kernel...), bias (out) or empty. Each spatial size n
// becomes (n - 1) stride - 2 padding + dilation (kernel - 1) + output_padding + 1.
Tensor ConvTranspose(const Tensor& x, const Tensor& weight, const Tensor& bias = {},
                     const ConvTransposeOptions& options = {}, Site site = Site::current());

struct PoolOptions {
  Dims stride = {}, padding = {0}, dilation = {1};  // empty stride: the size of the kernel
  Dims padding_after = {};                          // at the ends; empty: as at the beginnings
  bool count_padding = true;                        // averages count padding as zeros
  bool ceil_mode =
      false;  // the last window may hang over the end of the padding, but not begin there
};
// Pooling over the axes after the first two. Padding is never the maximum. INVALID_ARGUMENT if the
// kernel is larger than x with its padding.
Tensor MaxPool(const Tensor& x, const Dims& kernel, const PoolOptions& options = {},
               Site site = Site::current());
Tensor AvgPool(const Tensor& x, const Dims& kernel, const PoolOptions& options = {},
               Site site = Site::current());

// (x - mean) / sqrt(var + epsilon) * weight + bias over the last `axes` axes. weight and bias may
// be empty. Computed in f32 or wider; the result has the dtype of x.
Tensor LayerNorm(const Tensor& x, const Tensor& weight, const Tensor& bias, int64_t axes = 1,
                 double epsilon = 1e-5, Site site = Site::current());
// x / sqrt(mean of squares + epsilon) * weight over the last axis.
Tensor RmsNorm(const Tensor& x, const Tensor& weight, double epsilon = 1e-5,
               Site site = Site::current());
// Normalises axis 1 with given statistics: (x - mean) / sqrt(var + epsilon) * weight + bias. All
// tensors but x have shape (c), or as many axes as x and a shape that broadcasts to that of x.
Tensor BatchNorm(const Tensor& x, const Tensor& mean, const Tensor& var, const Tensor& weight,
                 const Tensor& bias, double epsilon = 1e-5, Site site = Site::current());
// Normalises each of `groups` groups of channels (axis 1) of each sample by its own mean and
// variance, over the channels of the group and all further axes; then * weight + bias, both of
// shape (c) or empty. Y. Wu, K. He, Group normalization, 2018. groups = c is instance
// normalisation.
Tensor GroupNorm(const Tensor& x, int64_t groups, const Tensor& weight = {},
                 const Tensor& bias = {}, double epsilon = 1e-5, Site site = Site::current());
Tensor InstanceNorm(const Tensor& x, const Tensor& weight = {}, const Tensor& bias = {},
                    double epsilon = 1e-5, Site site = Site::current());

// Rotary position embedding. The two halves of the last axis are the two coordinates of points;
// each point is rotated by its angle. The cosines and sines of the angles broadcast against one
// half. J. Su et al., RoFormer, 2021; the halves are those of GPT-NeoX.
Tensor Rotate(const Tensor& x, const Tensor& cos, const Tensor& sin, Site site = Site::current());

struct AttentionOptions {
  bool causal = false;          // query i of L sees keys up to i + S - L
  std::optional<double> scale;  // default: 1 / sqrt(d)
  double dropout = 0;           // of the softmax, see Tensor::Dropout
};
// softmax(q k^T scale + mask) v, for q (..., heads, L, d), k (..., kv, S, d), v (..., kv, S, e). kv
// divides heads; neighbouring heads share keys and values. All but d may be symbolic. The
// mask may be empty; otherwise it broadcasts to (..., heads, L, S). A bool mask is true where a
// query sees a key; a float mask is added. A query that sees no key (false, or -inf, everywhere)
// has the result 0, and all gradients through it are 0.
Tensor Attention(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& mask = {},
                 const AttentionOptions& options = {}, Site site = Site::current());

// Attention with several heads, for q (n, L, width), k and v (n, S, width): each is multiplied by
// its third of `in` and split into heads along the last axis; what Attention gives is joined and
// multiplied by `out`. Weights are transposed as those of nn.Linear: in (3 width, width), out
// (width, width). Biases may be empty. The mask is that of Attention, for (n, heads, L, S). A.
// Vaswani et al., Attention is all you need, 2017.
struct MultiHeadWeights {
  Tensor in, in_bias, out, out_bias;
};
Tensor MultiHeadAttention(const Tensor& q, const Tensor& k, const Tensor& v, int64_t heads,
                          const MultiHeadWeights& weights, const Tensor& mask = {},
                          const AttentionOptions& options = {}, Site site = Site::current());

// For each integer of `index` the row of weight (count, width), along a new last axis.
Tensor Embedding(const Tensor& weight, const Tensor& index, Site site = Site::current());

// One step of recurrent networks. x is (n, in), the states (n, hidden). weight_x is (k hidden, in),
// weight_h (k hidden, hidden), both biases (k hidden) or empty. The parts along the first axis are
// those of PyTorch and tinygrad.
struct LstmState {
  Tensor h, c;
};
// k = 4: input, forget, cell and output gate. S. Hochreiter, J. Schmidhuber, 1997; F. Gers et al.,
// 1999.
LstmState LstmCell(const Tensor& x, const LstmState& state, const Tensor& weight_x,
                   const Tensor& weight_h, const Tensor& bias_x = {}, const Tensor& bias_h = {},
                   Site site = Site::current());
// k = 3: reset, update and new; the reset gate acts on weight_h h + bias_h. K. Cho et al., 2014.
// Returns the new state.
Tensor GruCell(const Tensor& x, const Tensor& h, const Tensor& weight_x, const Tensor& weight_h,
               const Tensor& bias_x = {}, const Tensor& bias_h = {}, Site site = Site::current());

// The cells over sequences x (n, steps, in): the states h of all steps, (n, steps, hidden), and the
// last state. The steps are unrolled into one graph.
struct LstmSequence {
  Tensor y;
  LstmState last;
};
LstmSequence Lstm(const Tensor& x, const LstmState& state, const Tensor& weight_x,
                  const Tensor& weight_h, const Tensor& bias_x = {}, const Tensor& bias_h = {},
                  Site site = Site::current());
struct GruSequence {
  Tensor y, last;
};
GruSequence Gru(const Tensor& x, const Tensor& h, const Tensor& weight_x, const Tensor& weight_h,
                const Tensor& bias_x = {}, const Tensor& bias_h = {}, Site site = Site::current());

}  // namespace uopd::client::fn
