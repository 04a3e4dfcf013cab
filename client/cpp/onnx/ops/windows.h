// SPDX-License-Identifier: MIT
// The attributes of ops that go over a tensor with windows. Internal to the library.
#pragma once
#include "client/cpp/onnx/run/call.h"

namespace uopd::client::onnx {

// One entry for each spatial axis. Pads may be negative.
struct Windows {
  Dims kernel, stride, dilation, before, after;
};
// Reads kernel_shape (or takes `kernel`), strides, dilations, pads and auto_pad for an input with
// these spatial sizes. Entries are checked: kernels, strides and dilations are 1 at least.
absl::StatusOr<Windows> WindowsOf(Call& c, std::span<const int64_t> spatial, const Dims& kernel);
// REQUIRES: x has two axes and then the spatial ones.
Tensor PaddedForWindows(const Tensor& x, const Windows& w, double value);
// Convolution of an input that may be of integers.
absl::StatusOr<Tensor> Convolve(Call& c, const Tensor& x, const Tensor& weight,
                                const Tensor& bias = {});

}  // namespace uopd::client::onnx
