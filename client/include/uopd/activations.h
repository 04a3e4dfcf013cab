// SPDX-License-Identifier: MIT
// Activation functions, elementwise unless said otherwise. Names and defaults are those of
// torch.nn.functional; Tensor has Relu, Sigmoid, Tanh, Silu, Softmax and LogSoftmax. Errors and
// promotion are as in tensor.h; integers become f32. f16 and bf16 are computed in f32 and rounded
// once. All have gradients.
#pragma once
#include "uopd/tensor.h"

namespace uopd::client::fn {

Tensor LeakyRelu(const Tensor& x, double negative_slope = 0.01, Site site = Site::current());
Tensor Relu6(const Tensor& x, Site site = Site::current());  // x within [0, 6]
// weight has one element, or one for each channel (axis 1).
Tensor Prelu(const Tensor& x, const Tensor& weight, Site site = Site::current());
Tensor Threshold(const Tensor& x, double threshold, double value, Site site = Site::current());

Tensor Elu(const Tensor& x, double alpha = 1, Site site = Site::current());
Tensor Celu(const Tensor& x, double alpha = 1, Site site = Site::current());
// scale Elu(x, alpha). G. Klambauer et al., Self-normalizing neural networks, 2017: the defaults
// have the fixed point with mean 0 and variance 1.
Tensor Selu(const Tensor& x, double alpha = 1.6732632423543772848,
            double scale = 1.0507009873554804934, Site site = Site::current());

// log(1 + exp(beta x)) / beta, exact for all x: there is no threshold.
Tensor Softplus(const Tensor& x, double beta = 1, Site site = Site::current());
Tensor LogSigmoid(const Tensor& x, Site site = Site::current());
Tensor Softsign(const Tensor& x, Site site = Site::current());  // x / (1 + |x|)
Tensor Mish(const Tensor& x, Site site = Site::current());      // x tanh(softplus(x))

// slope x + offset within [0, 1]. The slope is not 0.
Tensor HardSigmoid(const Tensor& x, double slope = 1.0 / 6, double offset = 0.5,
                   Site site = Site::current());
Tensor HardSwish(const Tensor& x, Site site = Site::current());  // x hardsigmoid(x)
Tensor HardTanh(const Tensor& x, double low = -1, double high = 1, Site site = Site::current());
Tensor HardShrink(const Tensor& x, double lambda = 0.5, Site site = Site::current());
Tensor SoftShrink(const Tensor& x, double lambda = 0.5, Site site = Site::current());
Tensor TanhShrink(const Tensor& x, Site site = Site::current());  // x - tanh(x)

// x times the normal distribution function of x. D. Hendrycks and K. Gimpel, Gaussian error linear
// units, 2016, also give the approximations.
enum class GeluForm { kExact, kTanh };
Tensor Gelu(const Tensor& x, GeluForm form = GeluForm::kExact, Site site = Site::current());
Tensor QuickGelu(const Tensor& x, Site site = Site::current());  // x sigmoid(1.702 x)

// The first half of an axis times the sigmoid of the second half.
Tensor Glu(const Tensor& x, int64_t axis = -1, Site site = Site::current());
Tensor Softmin(const Tensor& x, int64_t axis = -1, Site site = Site::current());

}  // namespace uopd::client::fn
