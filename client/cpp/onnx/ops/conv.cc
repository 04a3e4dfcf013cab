// SPDX-License-Identifier: MIT
// Convolutions.
#include "client/cpp/onnx/ops/windows.h"
#include "client/cpp/onnx/run/registry.h"
#include "core/base/text.h"
#include "uopd/functional.h"
#include "uopd/image.h"
#include "uopd/movement.h"

namespace uopd::client::onnx {
namespace {

absl::Status RunConv(Call& c) {
  UOPD_ASSIGN(const Tensor y, Convolve(c, c.X(0), c.X(1), c.X(2)));
  return c.OutAs(0, y);
}

// Pads of output_shape, which say what the transpose cuts off.
void PadsOfOutputShape(Windows& w, std::span<const int64_t> spatial, const Dims& extra,
                       const Dims& wanted, bool upper) {
  for (size_t i = 0; i < spatial.size(); ++i) {
    const int64_t full =
        w.stride[i] * (spatial[i] - 1) + extra[i] + (w.kernel[i] - 1) * w.dilation[i] + 1;
    const int64_t cut = full - wanted[i], half = (cut - (cut < 0 ? 1 : 0)) / 2;  // rounded down
    w.before[i] = upper ? half : cut - half;
    w.after[i] = cut - w.before[i];
  }
}

absl::Status RunConvTranspose(Call& c) {
  if (c.Rank(0) < 3 || c.Rank(1) != c.Rank(0))
    return c.Wrong("the input or the weight has a wrong number of axes");
  const auto spatial = std::span<const int64_t>(c.Shape(0)).subspan(2);
  const size_t n = spatial.size();
  const Dims kernel(c.Shape(1).begin() + 2, c.Shape(1).end());
  UOPD_ASSIGN(Windows w, WindowsOf(c, spatial, kernel));
  const Dims extra = c.IntList("output_padding", Dims(n, 0));
  Dims wanted = c.IntList("output_shape");
  if (extra.size() != n) return c.Wrong("output_padding has not one entry for each spatial axis");
  if (w.kernel != kernel) return c.Wrong("kernel_shape is not the shape of the weight");
  for (const int64_t v : extra)
    if (v < 0 || v > ir::kMaxElements) return c.Wrong(Cat("an output_padding is ", v));
  for (const int64_t v : wanted)
    if (v < 0 || v > ir::kMaxElements) return c.Wrong(Cat("a size of output_shape is ", v));
  // Some files give all sizes of the result.
  if (wanted.size() == n + 2) wanted.erase(wanted.begin(), wanted.begin() + 2);
  const std::string_view mode = c.String("auto_pad", "NOTSET");
  if (wanted.empty() && mode.starts_with("SAME"))
    for (size_t i = 0; i < n; ++i) wanted.push_back(spatial[i] * w.stride[i]);
  if (!wanted.empty()) {
    if (wanted.size() != n) return c.Wrong("output_shape has not one entry for each spatial axis");
    PadsOfOutputShape(w, spatial, extra, wanted, mode == "SAME_UPPER");
  }
  // What pads cut off, and what is beyond the result, which has nothing but the bias.
  for (size_t i = 0; i < n; ++i) {
    w.before[i] = -w.before[i];
    w.after[i] = extra[i] - w.after[i];
  }
  const int64_t groups = c.Int("group", 1);
  if (groups < 1) return c.Wrong(Cat("the attribute group is ", groups));
  const Tensor full = fn::ConvTranspose(
      c.X(0), c.X(1), {}, {.stride = w.stride, .dilation = w.dilation, .groups = groups});
  UOPD_TRY(full.status());
  Tensor y = PaddedForWindows(full, w, 0);
  if (c.Has(2)) {
    Dims column(n + 1, 1);
    column[0] = -1;
    y = y + c.X(2).Reshape(column);
  }
  return c.OutAs(0, y);
}

// The zero point of a weight: one number, or one for each channel of the result.
Tensor WeightMinusZero(Call& c, size_t weight, size_t zero) {
  Tensor w = c.X(weight).Cast(Dtype::I32);
  if (!c.Has(zero) || c.Rank(weight) == 0) return w;  // Convolve refuses a weight without axes
  Dims dims(static_cast<size_t>(c.Rank(weight)), 1);
  dims[0] = -1;
  return w - c.X(zero).Cast(Dtype::I32).Reshape(dims);
}

absl::Status RunConvInteger(Call& c) {
  Tensor x = c.X(0).Cast(Dtype::I32);
  if (c.Has(2)) x = x - c.X(2).Cast(Dtype::I32).Reshape({});
  UOPD_ASSIGN(const Tensor y, Convolve(c, x, WeightMinusZero(c, 1, 3)));
  return c.Out(y.Cast(Dtype::I32));
}

// x, x_scale, x_zero, w, w_scale, w_zero, y_scale, y_zero, bias.
absl::Status RunQLinearConv(Call& c) {
  const Tensor x = c.X(0).Cast(Dtype::I32) - c.X(2).Cast(Dtype::I32).Reshape({});
  UOPD_ASSIGN(Tensor sums, Convolve(c, x, WeightMinusZero(c, 3, 5)));
  Dims column(static_cast<size_t>(c.Rank(0) - 1), 1);
  column[0] = -1;
  if (c.Has(8)) sums = sums + c.X(8).Reshape(column);
  const Tensor scale = c.X(1).Reshape({}) * c.X(4).Reshape(column) / c.X(6).Reshape({});
  const Dtype dtype = c.DtypeOf(7);
  const ir::IntRange range = ir::RangeOf(dtype);
  const Tensor y = fn::Round(sums.Cast(Dtype::F32) * scale) + c.X(7).Cast(Dtype::F32).Reshape({});
  return c.Out(y.Clip(static_cast<double>(range.min), static_cast<double>(range.max)).Cast(dtype));
}

absl::Status RunCol2Im(Call& c) {
  UOPD_ASSIGN(const Dims image, c.Ints(1));
  UOPD_ASSIGN(const Dims block, c.Ints(2));
  const size_t n = image.size();
  const Dims pads = c.IntList("pads", Dims(2 * n, 0)), stride = c.IntList("strides", Dims(n, 1)),
             dilation = c.IntList("dilations", Dims(n, 1));
  if (pads.size() != 2 * n || block.size() != n || n > static_cast<size_t>(ir::kMaxRank))
    return c.Wrong("attributes have wrong lengths");
  for (const Dims* all : {&image, &pads})
    for (const int64_t v : *all)
      if (v < -ir::kMaxElements || v > ir::kMaxElements)
        return c.Wrong(Cat("a size or pad is ", v));
  Dims whole = image, before(2, 0), after(2, 0);
  for (size_t i = 0; i < n; ++i) {
    whole[i] += pads[i] + pads[n + i];
    before.push_back(-pads[i]);
    after.push_back(-pads[n + i]);
  }
  const Tensor y = fn::Fold(c.X(0), whole, block, {.stride = stride, .dilation = dilation});
  return c.OutAs(0, fn::Pad(y, before, after));
}

}  // namespace

OpRows ConvOps() {
  return {
      {"Conv", 1, 2, 3, RunConv},
      {"ConvTranspose", 1, 2, 3, RunConvTranspose},
      {"ConvInteger", 10, 2, 4, RunConvInteger},
      {"QLinearConv", 10, 8, 9, RunQLinearConv},
      {"Col2Im", 18, 3, 3, RunCol2Im},
  };
}

}  // namespace uopd::client::onnx
