// SPDX-License-Identifier: MIT
// Kernels of convolutions as the scheduler makes them, of any sizes.
#pragma once
#include <utility>
#include <vector>

#include "core/ir/context.h"

namespace uopd::tests {

// Images (NCHW) with weights (OIHW), padded by half of the window. The results are f32.
struct Convolution {
  int64_t images, channels, rows, columns, results, window, stride;
  ir::Dtype dtype = ir::Dtype::F32;  // of images and weights
  bool selects = false;  // the last column counts as padding, by a WHERE around the load
  int64_t out(int64_t n) const { return (n + window / 2 * 2 - window) / stride + 1; }
  int64_t pixels() const { return out(rows) * out(columns); }  // of a result's image
  // The buffers by slot: results, images, weights.
  std::vector<std::pair<ir::Dtype, int64_t>> Buffers() const;
};

// The axes: image, result, row, column; channel, row and column of the window.
ir::UOp ConvolutionKernel(ir::UOpContext& ctx, const Convolution& v);

}  // namespace uopd::tests
