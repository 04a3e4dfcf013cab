// SPDX-License-Identifier: MIT
// Resizing and rearranging images: x is (n, c, spatial...) with any number of spatial axes. Errors
// and promotion are as in tensor.h; all have gradients.
#pragma once
#include "uopd/functional.h"

namespace uopd::client::fn {

// kNearest: the element at floor(i n / size). kNearestExact: at floor((i + 1/2) n / size). kLinear:
// bilinear with two spatial axes, trilinear with three. kCubic: R. G. Keys, Cubic convolution
// interpolation for digital image processing, 1981, with a = -3/4. kArea: AdaptiveAvgPool.
enum class InterpolateMode { kNearest, kNearestExact, kLinear, kCubic, kArea };
// To the given spatial sizes. With align_corners the outermost elements stay where they are
// (kLinear, kCubic only). Positions are computed exactly, with integers.
Tensor Interpolate(const Tensor& x, const Dims& size,
                   InterpolateMode mode = InterpolateMode::kNearest, bool align_corners = false,
                   Site site = Site::current());

// (n, c r r, h, w) -> (n, c, h r, w r), and the inverse. W. Shi et al., Real-time single image and
// video super-resolution using an efficient sub-pixel convolutional neural network, 2016.
Tensor PixelShuffle(const Tensor& x, int64_t factor, Site site = Site::current());
Tensor PixelUnshuffle(const Tensor& x, int64_t factor, Site site = Site::current());

struct PatchOptions {
  Dims stride = {1}, padding = {0}, dilation = {1};
};
// The patches that a convolution reads: (n, c kernel..., number of patches).
Tensor Unfold(const Tensor& x, const Dims& kernel, const PatchOptions& options = {},
              Site site = Site::current());
// Adds up patches at their places in images of the given spatial sizes: the transpose of Unfold.
// Floats only.
Tensor Fold(const Tensor& x, const Dims& size, const Dims& kernel, const PatchOptions& options = {},
            Site site = Site::current());

}  // namespace uopd::client::fn
