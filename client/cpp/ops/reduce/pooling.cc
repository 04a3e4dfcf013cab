// SPDX-License-Identifier: MIT
#include "uopd/pooling.h"

#include <algorithm>
#include <limits>
#include <string_view>

#include "client/cpp/ops/common.h"
#include "client/cpp/ops/sized.h"
#include "uopd/indexing.h"

namespace uopd::client::fn {
namespace {

// The options of pooling with one entry for each axis of x after the second, or the error.
struct Pooled {
  std::optional<Tensor> error;
  size_t axes = 0;
  Dims kernel, stride, dilation;
  Dims before, after;  // padding
  Dims overhang;       // what ceil_mode adds at the end of each axis
};
Pooled Prepare(const Tensor& x, const Dims& kernel, const PoolOptions& options,
               std::string_view what, Site site) {
  Pooled out;
  if ((out.error = FirstError(what, {&x}, site))) return out;
  out.axes = x.rank() < 3 ? 0 : static_cast<size_t>(x.rank() - 2);
  const auto k = PerAxis(kernel, out.axes), p = PerAxis(options.padding, out.axes),
             d = PerAxis(options.dilation, out.axes);
  const auto after = options.padding_after.empty() ? p : PerAxis(options.padding_after, out.axes);
  const auto s = options.stride.empty() ? k : PerAxis(options.stride, out.axes);
  if (out.axes == 0 || !k || !p || !d || !s || !after) {
    out.error = Wrong(x, what, site, Cat("kernel ", Text(kernel), " for shape ", Text(x.dims())));
    return out;
  }
  out.kernel = *k;
  out.stride = *s;
  out.before = *p;
  out.after = *after;
  out.dilation = *d;
  for (size_t i = 0; i < out.axes; ++i) {
    const ir::Int128 span = ir::Int128{out.kernel[i] - 1} * out.dilation[i] + 1;
    if (span > ir::Int128{SizeNow(x, 2 + i)} + out.before[i] + out.after[i]) {
      out.error = Wrong(x, what, site,
                        Cat("kernel ", Text(kernel), " is larger than shape ", ShapeText(x)));
      return out;
    }
    if (options.ceil_mode && !ShapeOf(x)[2 + i].Is(ir::Op::CONST)) {
      out.error = Wrong(x, what, site, Cat("ceil_mode along a symbolic axis of ", ShapeText(x)));
      return out;
    }
  }
  out.overhang = Dims(out.axes, 0);
  for (size_t i = 0; options.ceil_mode && i < out.axes; ++i) {
    const int64_t begun = out.before[i] + x.dims()[2 + i], whole = begun + out.after[i],
                  stride = out.stride[i], span = (out.kernel[i] - 1) * out.dilation[i] + 1;
    // What else is wrong is said by Windows.
    if (stride < 1 || whole < span) continue;
    int64_t last = (whole - span + stride - 1) / stride;
    if (last * stride >= begun) --last;
    out.overhang[i] = std::max<int64_t>(0, last * stride + span - whole);
  }
  return out;
}

Tensor Around(const Tensor& x, const Dims& before, const Dims& after, Site site) {
  Dims low(x.dims().size(), 0), high = low;
  std::copy(before.begin(), before.end(), low.end() - static_cast<ptrdiff_t>(before.size()));
  std::copy(after.begin(), after.end(), high.end() - static_cast<ptrdiff_t>(after.size()));
  return x.Pad(low, high, 0, site);
}
Tensor Hanging(const Tensor& x, const Pooled& p, Site site) {
  return Around(x, Dims(p.axes, 0), p.overhang, site);
}
Tensor Surrounded(const Tensor& x, const Pooled& p, Site site) {
  return Hanging(Around(x, p.before, p.after, site), p, site);
}

// Windows (n, c, kernel..., spatial...). So what the gradient computes for each element of each
// window, which is stored in this order, lies as the image does.
Tensor WindowsBefore(const Tensor& x, const Pooled& p, Site site) {
  Tensor windows = x.Windows(p.kernel, p.stride, p.dilation, site);
  if (!windows.status().ok()) return windows;
  Dims order = {0, 1};
  for (const size_t first : {2 + p.axes, size_t{2}}) {
    for (size_t i = 0; i < p.axes; ++i) order.push_back(static_cast<int64_t>(first + i));
  }
  return windows.Permute(order, site);
}
Dims WindowAxes(const Pooled& p) {
  Dims out;
  for (size_t i = 0; i < p.axes; ++i) out.push_back(static_cast<int64_t>(2 + i));
  return out;
}

// The windows of x, in which padding is `fill`.
Tensor FilledWindows(const Tensor& x, const Pooled& p, const Tensor& fill, Site site) {
  Tensor padded = Surrounded(x, p, site);
  if (!padded.status().ok()) return padded;
  if (padded.dims() != x.dims()) padded = Where(Surrounded(TrueLike(x), p, site), padded, fill);
  return WindowsBefore(padded, p, site);
}

// One axis of the adaptive pools: (..., n, ...) -> (..., size, n, ...) and the mask of elements
// that count.
struct Cells {
  Tensor values, mask;
};
Cells CellsOf(const Tensor& x, int64_t axis, int64_t size, Site site) {
  const ir::UOp n = ShapeOf(x)[static_cast<size_t>(axis)];
  Dims column(x.dims().size() + 1, 1);
  ir::SymbolicDims row(x.dims().size() + 1, Ctx(x).Idx(1));
  column[static_cast<size_t>(axis)] = size;
  row[static_cast<size_t>(axis) + 1] = n;
  const Tensor cell = IotaLike(x, size, Dtype::I64).Reshape(column, site);
  const Tensor at = ReshapeTo(IotaOf(x, n, Dtype::I64), row, "Cells", site);
  // begin = floor(cell n / size), end = ceil((cell + 1) n / size)
  const Tensor length = SizeTensor(x, n);
  const Tensor begin = (cell * length).FloorDiv(size),
               end = ((cell + 1) * length + (size - 1)).FloorDiv(size);
  return {x.Unsqueeze(axis, site), (at >= begin) & (at < end)};
}

// The sizes for each spatial axis, or the error.
std::pair<Dims, std::optional<Tensor>> SpatialSizes(const Tensor& x, const Dims& size,
                                                    std::string_view what, Site site) {
  if (auto error = FirstError(what, {&x}, site)) return {{}, error};
  const auto sizes = PerAxis(size, x.rank() < 3 ? 0 : static_cast<size_t>(x.rank() - 2));
  bool fits = x.rank() >= 3 && sizes.has_value();
  for (size_t i = 0; fits && i < sizes->size(); ++i)
    fits = (*sizes)[i] >= 0 && (x.dims()[2 + i] > 0 || (*sizes)[i] == 0);
  if (!fits)
    return {{}, Wrong(x, what, site, Cat("size ", Text(size), " for shape ", Text(x.dims())))};
  return {*sizes, std::nullopt};
}

}  // namespace

Tensor MaxPool(const Tensor& x, const Dims& kernel, const PoolOptions& options, Site site) {
  const Pooled p = Prepare(x, kernel, options, "MaxPool", site);
  if (p.error) return *p.error;
  return FilledWindows(x, p, Least(x, site), site).Max(WindowAxes(p), false, site);
}

std::pair<Tensor, Tensor> MaxPoolWithIndices(const Tensor& x, const Dims& kernel,
                                             const PoolOptions& options, Site site) {
  const Pooled p = Prepare(x, kernel, options, "MaxPoolWithIndices", site);
  if (p.error) return {*p.error, *p.error};
  const Tensor windows = FilledWindows(x, p, Least(x, site), site);
  const Tensor most = windows.Max(WindowAxes(p), true, site);
  if (!most.status().ok()) return {most, most};
  ir::SymbolicDims plane = SizesOf(x);
  plane[0] = plane[1] = Ctx(x).Idx(1);
  ir::UOp count = plane[2];
  for (size_t i = 3; i < plane.size(); ++i) count = ProductOf(Ctx(x), count, plane[i]);
  const Dtype place = PositionDtype(ir::Product(std::span(x.dims()).subspan(2)));
  const Tensor at = ReshapeTo(IotaOf(x, count, place), plane, "MaxPool", site);
  const Tensor never = Made(x, Ctx(x).Int(place, ir::RangeOf(place).max), "MaxPool", site);
  const Tensor places = FilledWindows(at, p, never, site);
  const Tensor hit =
      ir::IsFloat(x.dtype()) ? (windows == most) | windows.IsNan(site) : windows == most;
  const Tensor index = Where(hit, places, never);
  return {windows.Max(WindowAxes(p), false, site), index.Min(WindowAxes(p), false, site)};
}

Tensor MaxUnpool(const Tensor& x, const Tensor& indices, const Dims& size, Site site) {
  if (auto error = Refused("MaxUnpool", {&x, &indices}, site)) return *error;
  if (x.rank() < 3 || indices.dims() != x.dims() || size.size() + 2 != x.dims().size()) {
    return Wrong(x, "MaxUnpool", site,
                 Cat("indices of shape ", Text(indices.dims()), " and size ", Text(size),
                     " for shape ", Text(x.dims())));
  }
  for (int64_t d : size) {
    if (d < 0 || d > INT32_MAX) return Wrong(x, "MaxUnpool", site, Cat("size ", Text(size)));
  }
  Dims flat = {x.dims()[0], x.dims()[1], ir::Product(size)}, to = {x.dims()[0], x.dims()[1]};
  to.insert(to.end(), size.begin(), size.end());
  return Scatter(Like(x, 0).Expand(flat, site), 2, indices.Flatten(2, site),
                 {x.Flatten(2, site), site})
      .Reshape(to, site);
}

Tensor AvgPool(const Tensor& x, const Dims& kernel, const PoolOptions& options, Site site) {
  const Pooled p = Prepare(x, kernel, options, "AvgPool", site);
  if (p.error) return *p.error;
  const Dims window = WindowAxes(p);
  const bool whole = p.overhang == Dims(p.axes, 0);
  if (options.count_padding && whole)
    return WindowsBefore(Surrounded(x, p, site), p, site).Mean(window, false, site);
  // The sum of the elements that count, divided by their number.
  const Tensor wide = Wide(x, site);
  auto sum = [&](const Tensor& t) { return WindowsBefore(t, p, site).Sum(window, false, site); };
  Tensor counted = TrueLike(wide).Cast(wide.dtype(), site);
  if (options.count_padding) {
    const Tensor padded = Around(x, p.before, p.after, site);
    if (!padded.status().ok()) return padded;
    counted = Hanging(TrueLike(padded).Cast(wide.dtype(), site), p, site);
  } else {
    counted = Surrounded(counted, p, site);
  }
  return (sum(Surrounded(wide, p, site)) / sum(counted)).Cast(FloatOf(x.dtype()), site);
}

Tensor AdaptiveMaxPool(const Tensor& x, const Dims& size, Site site) {
  const auto [sizes, error] = SpatialSizes(x, size, "AdaptiveMaxPool", site);
  if (error) return *error;
  Tensor out = x;
  for (size_t i = 0; i < sizes.size(); ++i) {
    const auto axis = static_cast<int64_t>(2 + i);
    const Cells c = CellsOf(out, axis, sizes[i], site);
    out = Where(c.mask, c.values, Least(x, site)).Max({axis + 1}, false, site);
  }
  return out;
}

Tensor AdaptiveAvgPool(const Tensor& x, const Dims& size, Site site) {
  const auto [sizes, error] = SpatialSizes(x, size, "AdaptiveAvgPool", site);
  if (error) return *error;
  Tensor out = Wide(x, site);
  for (size_t i = 0; i < sizes.size(); ++i) {
    const auto axis = static_cast<int64_t>(2 + i);
    const Cells c = CellsOf(out, axis, sizes[i], site);
    const Tensor sum = Where(c.mask, c.values, Like(out, 0)).Sum({axis + 1}, false, site);
    out = sum / c.mask.Cast(out.dtype(), site).Sum({axis + 1}, false, site);
  }
  return out.Cast(FloatOf(x.dtype()), site);
}

}  // namespace uopd::client::fn
