// SPDX-License-Identifier: MIT
#include "client/cpp/onnx/ops/windows.h"

#include <algorithm>

#include "core/base/text.h"
#include "uopd/functional.h"
#include "uopd/movement.h"

namespace uopd::client::onnx {

absl::StatusOr<Windows> WindowsOf(Call& c, std::span<const int64_t> spatial, const Dims& kernel) {
  const size_t n = spatial.size();
  Windows w;
  w.kernel = c.IntList("kernel_shape", kernel);
  w.stride = c.IntList("strides", Dims(n, 1));
  w.dilation = c.IntList("dilations", Dims(n, 1));
  const Dims pads = c.IntList("pads", Dims(2 * n, 0));
  const std::string_view mode = c.String("auto_pad", "NOTSET");
  constexpr int64_t kMost = 1 << 20, kLongest = int64_t{1} << 40;  // products fit into 64 bits
  for (const int64_t size : spatial)
    if (size > kLongest) return c.Refuse(Cat("an axis of ", size, " elements is not supported"));
  for (const Dims* d : {&w.kernel, &w.stride, &w.dilation}) {
    if (d->size() != n) return c.Wrong("an attribute has not one entry for each spatial axis");
    for (const int64_t v : *d)
      if (v < 1 || v > kMost) return c.Wrong(Cat("a kernel, stride or dilation is ", v));
  }
  if (pads.size() != 2 * n) return c.Wrong("pads has not two entries for each spatial axis");
  for (const int64_t v : pads)
    if (v < -kMost || v > kMost) return c.Wrong(Cat("a pad is ", v));
  w.before.assign(n, 0);
  w.after.assign(n, 0);
  if (mode == "NOTSET") {
    w.before.assign(pads.begin(), pads.begin() + static_cast<ptrdiff_t>(n));
    w.after.assign(pads.begin() + static_cast<ptrdiff_t>(n), pads.end());
  } else if (mode == "SAME_UPPER" || mode == "SAME_LOWER") {
    for (size_t i = 0; i < n; ++i) {
      const int64_t out = (spatial[i] + w.stride[i] - 1) / w.stride[i];
      const int64_t reach = (w.kernel[i] - 1) * w.dilation[i] + 1;
      const int64_t more = std::max<int64_t>((out - 1) * w.stride[i] + reach - spatial[i], 0);
      w.before[i] = mode == "SAME_UPPER" ? more / 2 : more - more / 2;
      w.after[i] = more - w.before[i];
    }
  } else if (mode != "VALID") {
    return c.Wrong("the attribute auto_pad is not known");
  }
  return w;
}

Tensor PaddedForWindows(const Tensor& x, const Windows& w, double value) {
  Dims before(2, 0), after(2, 0);
  before.insert(before.end(), w.before.begin(), w.before.end());
  after.insert(after.end(), w.after.begin(), w.after.end());
  return fn::Pad(x, before, after, fn::PadMode::kConstant, value);
}

absl::StatusOr<Tensor> Convolve(Call& c, const Tensor& x, const Tensor& weight,
                                const Tensor& bias) {
  if (x.rank() < 3 || weight.rank() != x.rank())
    return c.Wrong("the input or the weight has a wrong number of axes");
  const std::span<const int64_t> spatial(x.dims());
  const Dims& all = weight.dims();
  UOPD_ASSIGN(const Windows w, WindowsOf(c, spatial.subspan(2), Dims(all.begin() + 2, all.end())));
  if (!std::ranges::equal(w.kernel, std::span(all).subspan(2)))
    return c.Wrong("kernel_shape is not the shape of the weight");
  const int64_t groups = c.Int("group", 1);
  if (groups < 1) return c.Wrong(Cat("the attribute group is ", groups));
  fn::ConvOptions options{.stride = w.stride, .dilation = w.dilation, .groups = groups};
  if (w.before == w.after) {
    options.padding = w.before;
    return fn::Conv(x, weight, bias, options);
  }
  options.padding = {0};
  return fn::Conv(PaddedForWindows(x, w, 0), weight, bias, options);
}

}  // namespace uopd::client::onnx
