// SPDX-License-Identifier: MIT
// Pooling.
#include "client/cpp/onnx/ops/windows.h"
#include "client/cpp/onnx/reader.h"
#include "client/cpp/onnx/run/registry.h"
#include "core/base/text.h"
#include "uopd/linalg.h"
#include "uopd/movement.h"
#include "uopd/pooling.h"

namespace uopd::client::onnx {
namespace {

absl::StatusOr<Windows> PoolWindows(Call& c, size_t input = 0) {
  if (c.Rank(input) < 3) return c.Wrong("the input has no spatial axis");
  if (c.Find("kernel_shape") == nullptr) return c.Wrong("the attribute kernel_shape is missing");
  return WindowsOf(c, std::span<const int64_t>(c.Shape(input)).subspan(2), {});
}

fn::PoolOptions OptionsOf(Call& c, const Windows& w) {
  return {.stride = w.stride,
          .padding = w.before,
          .dilation = w.dilation,
          .padding_after = w.after,
          .ceil_mode = c.Int("ceil_mode", 0) != 0};
}

// Positions in the spatial axes as positions in the whole tensor x; by columns if `columns`.
Tensor WholePositions(Call& c, const Tensor& at, const Dims& dims, bool columns) {
  const std::span<const int64_t> spatial = std::span(dims).subspan(2);
  Tensor place = at.Cast(Dtype::I64);
  if (columns) {
    Tensor rest = place, out = c.client().Zeros({}, Dtype::I64);
    for (size_t i = spatial.size(); i-- > 0;) {
      out = out * spatial[i] + rest % spatial[i];
      rest = rest.FloorDiv(spatial[i]);
    }
    // `out` has the last axis as its slowest one: digits were taken from the last axis on.
    place = out;
  }
  const int64_t planes = dims[0] * dims[1];
  Dims column(dims.size(), 1);
  column[0] = dims[0];
  column[1] = dims[1];
  return place + c.client().Arange(0, planes, 1, Dtype::I64).Reshape(column) * ir::Product(spatial);
}

absl::Status RunMaxPool(Call& c) {
  UOPD_ASSIGN(const Windows w, PoolWindows(c));
  const fn::PoolOptions options = OptionsOf(c, w);
  const bool columns = c.Int("storage_order", 0) != 0;
  if (!c.Wants(1)) return c.OutAs(0, fn::MaxPool(c.X(0), w.kernel, options));
  const auto [values, at] = fn::MaxPoolWithIndices(c.X(0), w.kernel, options);
  UOPD_TRY(values.status());
  UOPD_TRY(c.OutAs(0, values));
  return c.Out(WholePositions(c, at, c.Shape(0), columns), 1);
}

absl::Status RunAveragePool(Call& c) {
  UOPD_ASSIGN(const Windows w, PoolWindows(c));
  fn::PoolOptions options = OptionsOf(c, w);
  options.count_padding = c.Int("count_include_pad", 0) != 0;
  return c.OutAs(0, fn::AvgPool(c.X(0), w.kernel, options));
}

absl::Status RunLpPool(Call& c) {
  UOPD_ASSIGN(Windows w, PoolWindows(c));
  const auto p = static_cast<double>(c.Int("p", 2));
  const bool ceil = c.Int("ceil_mode", 0) != 0;
  for (size_t i = 0; ceil && i < w.kernel.size(); ++i) {
    const int64_t free =
        c.Shape(0)[i + 2] + w.before[i] + w.after[i] - ((w.kernel[i] - 1) * w.dilation[i] + 1);
    if (free % w.stride[i] != 0) w.after[i] += w.stride[i] - free % w.stride[i];
  }
  Dims axes;
  for (size_t i = 0; i < w.kernel.size(); ++i) axes.push_back(c.Rank(0) + static_cast<int64_t>(i));
  const Tensor powers = PaddedForWindows(c.X(0).Abs().Pow(p), w, 0);
  return c.OutAs(0, powers.Windows(w.kernel, w.stride, w.dilation).Sum(axes).Pow(1 / p));
}

OpRow Global(std::string_view name, int since,
             Tensor (*f)(Call&, const Tensor&, const Dims& axes)) {
  return {name, since, 1, 1, [f](Call& c) -> absl::Status {
            if (c.Rank(0) < 3) return c.Wrong("the input has no spatial axis");
            Dims axes;
            for (int64_t i = 2; i < c.Rank(0); ++i) axes.push_back(i);
            return c.OutAs(0, f(c, c.X(0), axes));
          }};
}

absl::Status RunMaxUnpool(Call& c) {
  UOPD_ASSIGN(const Windows w, PoolWindows(c));
  if (c.Shape(0) != c.Shape(1)) return c.Wrong("the positions have another shape than the input");
  Dims size;
  for (size_t i = 0; i < w.kernel.size(); ++i) {
    size.push_back((c.Shape(0)[i + 2] - 1) * w.stride[i] + w.kernel[i] - w.before[i] - w.after[i]);
  }
  if (!ElementsOf(size)) return c.Wrong("the result has a negative size, or too many elements");
  Dims wanted = size;
  if (c.Has(2)) {
    UOPD_ASSIGN(wanted, c.Ints(2));
    if (wanted.size() == size.size() + 2) wanted.erase(wanted.begin(), wanted.begin() + 2);
    if (wanted.size() != size.size()) return c.Wrong("output_shape has a wrong length");
    for (const int64_t d : wanted)
      if (d < 0 || d > ir::kMaxElements) return c.Wrong(Cat("a size is ", d));
  }
  const Dims before(static_cast<size_t>(c.Rank(0)), 0);
  Dims after(2, 0);
  for (size_t i = 0; i < size.size(); ++i) after.push_back(wanted[i] - size[i]);
  const Tensor at = c.X(1) % std::max<int64_t>(ir::Product(size), 1);
  const Tensor y = fn::MaxUnpool(c.X(0), at.Cast(Dtype::I32), size);
  return c.OutAs(0, fn::Pad(y, before, after));
}

}  // namespace

OpRows PoolOps() {
  return {
      {"MaxPool", 1, 1, 1, RunMaxPool},
      {"AveragePool", 1, 1, 1, RunAveragePool},
      {"LpPool", 2, 1, 1, RunLpPool},
      {"MaxUnpool", 9, 2, 3, RunMaxUnpool},
      Global("GlobalAveragePool", 1,
             [](Call&, const Tensor& x, const Dims& axes) { return x.Mean(axes, true); }),
      // The input is stored first. A maximum in the kernel of a convolution would be a loop around
      // the sums of the convolution, which have no tile there and take ten times as long.
      Global(
          "GlobalMaxPool", 1,
          [](Call&, const Tensor& x, const Dims& axes) { return x.Contiguous().Max(axes, true); }),
      Global("GlobalLpPool", 2,
             [](Call& c, const Tensor& x, const Dims& axes) {
               return fn::Norm(x, static_cast<double>(c.Int("p", 2)), axes, true);
             }),
  };
}

}  // namespace uopd::client::onnx
