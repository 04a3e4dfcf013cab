// SPDX-License-Identifier: MIT
// Pooling beyond MaxPool and AvgPool of functional.h. x is (n, c, spatial...) with any number of
// spatial axes. Errors and promotion are as in tensor.h; all have gradients.
#pragma once
#include <utility>

#include "uopd/functional.h"

namespace uopd::client::fn {

// MaxPool, and where each maximum was: its position (i32) in the flattened spatial axes of x. Of
// equal elements the first one.
std::pair<Tensor, Tensor> MaxPoolWithIndices(const Tensor& x, const Dims& kernel,
                                             const PoolOptions& options = {},
                                             Site site = Site::current());
// Puts the maxima back: x and indices as MaxPoolWithIndices gave them, `size` the spatial sizes of
// its input. All other elements are 0.
Tensor MaxUnpool(const Tensor& x, const Tensor& indices, const Dims& size,
                 Site site = Site::current());

// Pooling to given spatial sizes: element i of `size` covers the elements floor(i n / size) to
// ceil((i + 1) n / size) of an axis of length n.
Tensor AdaptiveMaxPool(const Tensor& x, const Dims& size, Site site = Site::current());
Tensor AdaptiveAvgPool(const Tensor& x, const Dims& size, Site site = Site::current());

}  // namespace uopd::client::fn
