// SPDX-License-Identifier: MIT
// Discrete Fourier transforms, by their definition: products with matrices of cosines and sines. A
// complex number is a last axis of two.
#include <algorithm>
#include <numbers>

#include "client/cpp/onnx/run/registry.h"
#include "core/base/text.h"
#include "uopd/movement.h"

namespace uopd::client::onnx {
namespace {

// The matrices take memory of the daemon that grows with the square of the length.
constexpr int64_t kLongestTransform = 1 << 13;

Tensor WideForTransform(const Tensor& x) {
  return ir::IsSmallFloat(x.dtype()) ? x.Cast(Dtype::F32) : x;
}

struct Complex {
  Tensor re, im;  // im empty: 0
};

// cos and sin of 2 pi j k / length for j < rows, k < columns.
Complex Roots(Call& c, int64_t rows, int64_t columns, int64_t length, Dtype dtype) {
  const Tensor j = c.client().Arange(0, rows, 1, Dtype::I64).Reshape({rows, 1});
  const Tensor k = c.client().Arange(0, columns, 1, Dtype::I64).Reshape({1, columns});
  const Tensor angle =
      ((j * k) % length).Cast(Dtype::F64) * (2 * std::numbers::pi / static_cast<double>(length));
  return {angle.Cos().Cast(dtype), angle.Sin().Cast(dtype)};
}

// Along the last axis, `bins` numbers of the transform of x.
Complex Transformed(Call& c, const Complex& x, int64_t length, int64_t bins, bool inverse) {
  const Complex w = Roots(c, x.re.dims().back(), bins, length, x.re.dtype());
  const Tensor sin = inverse ? w.im : w.im.Neg();
  Complex y{x.re.MatMul(w.re), x.re.MatMul(sin)};
  if (x.im.state() != nullptr) {
    y.re = y.re - x.im.MatMul(sin);
    y.im = y.im + x.im.MatMul(w.re);
  }
  if (inverse) {
    y.re = y.re / static_cast<double>(length);
    y.im = y.im / static_cast<double>(length);
  }
  return y;
}

// The first `length` elements of the last axis, with zeros behind it.
Tensor WithLength(const Tensor& x, int64_t length) {
  Dims before(static_cast<size_t>(x.rank()), 0), after = before;
  after.back() = length - x.dims().back();
  return fn::Pad(x, before, after);
}

absl::Status RunDft(Call& c) {
  const int64_t rank = c.Rank(0);
  if (rank < 2 || c.Shape(0).back() < 1 || c.Shape(0).back() > 2)
    return c.Wrong("the last axis is not one of real or complex numbers");
  int64_t axis = -2;
  if (c.opset() < 20) {
    axis = c.Int("axis", 1);
  } else if (c.Has(2)) {
    UOPD_ASSIGN(axis, c.OneInt(2));
  }
  UOPD_ASSIGN(axis, c.Axis(axis, rank));
  if (axis == rank - 1) return c.Wrong("the last axis is not transformed");
  const bool inverse = c.Int("inverse", 0) != 0, half = c.Int("onesided", 0) != 0;
  const bool to_real = inverse && half;
  const int64_t given = c.Shape(0)[static_cast<size_t>(axis)];
  int64_t length = to_real ? 2 * (given - 1) : given;
  if (c.Has(1)) {
    UOPD_ASSIGN(length, c.OneInt(1));
  }
  if (length < 1 || length > kLongestTransform)
    return c.Refuse(Cat("a transform of ", length, " elements is not supported"));
  const Tensor all = WideForTransform(c.X(0)).Transpose(axis, rank - 2);
  const int64_t used = to_real ? length / 2 + 1 : length;
  Complex x{WithLength(all.Select(-1, 0), used), {}};
  if (c.Shape(0).back() == 2) x.im = WithLength(all.Select(-1, 1), used);
  Tensor y;
  if (to_real) {
    // The numbers that are not given are the conjugates of those that are.
    const Tensor k = c.client().Arange(0, used, 1, Dtype::I64);
    const Tensor twice = Where((k == 0) | (k * 2 == length), 1.0, 2.0).Cast(x.re.dtype());
    x.re = x.re * twice;
    if (x.im.state() != nullptr) x.im = x.im * twice;
    y = Transformed(c, x, length, length, true).re.Unsqueeze(-1);
  } else {
    const Complex out = Transformed(c, x, length, half ? length / 2 + 1 : length, inverse);
    y = Stack(std::vector{out.re, out.im}, -1);
  }
  return c.OutAs(0, y.Transpose(axis, rank - 2));
}

// Inputs: signal (n, length, 1 or 2), frame_step, window, frame_length.
absl::Status RunStft(Call& c) {
  if (c.Rank(0) != 3 || c.Shape(0)[2] < 1 || c.Shape(0)[2] > 2)
    return c.Wrong("the signal has a wrong shape");
  UOPD_ASSIGN(const int64_t step, c.OneInt(1));
  int64_t length = 0;
  if (c.Has(3)) {
    UOPD_ASSIGN(length, c.OneInt(3));
  } else if (c.Has(2)) {
    length = ir::Product(c.Shape(2));
  }
  if (step < 1 || length < 1 || length > std::min(c.Shape(0)[1], kLongestTransform))
    return c.Wrong(Cat("frames of ", length, " elements, every ", step));
  const bool half = c.Int("onesided", 1) != 0;
  if (half && c.Shape(0)[2] == 2) return c.Wrong("onesided is for real signals");
  const auto frames = [&](int64_t part) {
    Tensor f = WideForTransform(c.X(0)).Select(-1, part).Windows({length}, {step}, {1});
    return c.Has(2) ? f * c.X(2).Cast(f.dtype()) : f;  // (n, frames, length)
  };
  Complex x{frames(0), {}};
  if (c.Shape(0)[2] == 2) x.im = frames(1);
  UOPD_TRY(x.re.status());
  const Complex y = Transformed(c, x, length, half ? length / 2 + 1 : length, false);
  return c.OutAs(0, Stack(std::vector{y.re, y.im}, -1));
}

}  // namespace

OpRows SignalOps() {
  return {
      {"DFT", 17, 1, 3, RunDft},
      {"STFT", 17, 2, 4, RunStft},
  };
}

}  // namespace uopd::client::onnx
