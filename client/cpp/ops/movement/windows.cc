// SPDX-License-Identifier: MIT
// Windows: overlapping views that are built from movement operations alone. So convolution and
// pooling are reductions over a view, and nothing is copied.
#include "client/cpp/graph/build.h"
#include "client/cpp/ops/sized.h"

namespace uopd::client {
namespace {

// [..., n, ...] -> [..., out, kernel, ...]. Element (o, k) is element o * stride + k * dilation of
// the axis.
Tensor WindowsOf(const Tensor& t, size_t axis, int64_t kernel, int64_t stride, int64_t dilation,
                 Site site) {
  const int64_t n = t.dims()[axis], span = (kernel - 1) * dilation + 1;
  const int64_t out = n < span ? 0 : (n - span) / stride + 1;
  const auto at = static_cast<ptrdiff_t>(axis);
  // t with its axis cut to [0, size).
  auto head = [&](const Tensor& x, size_t i, int64_t size) {
    Dims end = x.dims();
    end[i] = size;
    return end == x.dims() ? x : x.Shrink(Dims(end.size(), 0), end, site);
  };
  auto reshape = [&](const Tensor& x, std::initializer_list<int64_t> parts, ptrdiff_t old) {
    Dims to = x.dims();
    to.erase(to.begin() + at, to.begin() + at + old);
    to.insert(to.begin() + at, parts);
    return to == x.dims() ? x : x.Reshape(to, site);
  };
  if (out == 0) {
    Dims empty = t.dims();
    empty[axis] = 0;
    empty.insert(empty.begin() + at + 1, kernel);
    return head(t, axis, 0).Reshape(empty, site);
  }
  // Windows that do not overlap: the axis is divided into blocks of `stride` elements, and the
  // first `kernel` elements of each block are the window.
  if (dilation == 1 && kernel <= stride && out * stride <= n) {
    return head(reshape(head(t, axis, out * stride), {out, stride}, 1), axis + 1, kernel);
  }
  // The axis is repeated and cut into rows of `pitch` elements. Row k starts at element k * pitch,
  // which is k * dilation after whole repetitions of the axis. A row must be long enough for the
  // starts of all windows.
  const int64_t turns = (std::max<int64_t>(0, out * stride - dilation) + n - 1) / n;
  const int64_t pitch = turns * n + dilation, repeats = (kernel * pitch + n - 1) / n;
  Dims tiled = t.dims();
  tiled.insert(tiled.begin() + at, repeats);
  Tensor x = reshape(t, {1, n}, 1);
  if (repeats > 1) x = x.Expand(tiled, site);
  x = head(reshape(x, {repeats * n}, 2), axis, kernel * pitch);
  x = head(reshape(x, {kernel, pitch}, 1), axis + 1, out * stride);
  // reshape() counts from `axis`, so the rows are taken along.
  x = reshape(x, {kernel, out, stride}, 2);
  x = reshape(head(x, axis + 2, 1), {kernel, out}, 3);
  return x.Transpose(static_cast<int64_t>(axis), static_cast<int64_t>(axis) + 1, site);
}

}  // namespace

Tensor Tensor::Windows(const Dims& kernel, const Dims& stride, const Dims& dilation,
                       Site site) const {
  if (!status().ok()) return *this;
  const size_t axes = kernel.size();
  bool fits = axes <= dims().size() && stride.size() == axes && dilation.size() == axes;
  // A bound on each number keeps the arithmetic far from overflow.
  constexpr int64_t kMost = int64_t{1} << 20;
  for (size_t i = 0; fits && i < axes; ++i) {
    for (const int64_t v : {kernel[i], stride[i], dilation[i]}) fits &= v >= 1 && v <= kMost;
  }
  if (!fits) {
    return Wrong(*this, "Windows", site,
                 Cat("kernel ", Text(kernel), ", stride ", Text(stride), ", dilation ",
                     Text(dilation), " over shape ", Text(dims())));
  }
  const size_t first = dims().size() - axes;
  if (is_symbolic()) {
    ir::UOpContext& ctx = Ctx(*this);
    ir::SymbolicDims sizes = SizesOf(*this);
    for (size_t i = 0; i < axes; ++i) {
      ir::UOp& n = sizes[first + i];
      const int64_t span = (kernel[i] - 1) * dilation[i] + 1;
      n = LargerOf(ctx, QuotientOf(ctx, SumOf(ctx, n, ctx.Idx(stride[i] - span)), stride[i]),
                   ctx.Idx(0));
    }
    for (int64_t k : kernel) sizes.push_back(ctx.Idx(k));
    return Cornered(Boxed(*this, site).Windows(kernel, stride, dilation, site), sizes, site);
  }
  Tensor out = *this;
  for (size_t i = 0; i < axes && out.status().ok(); ++i)
    out = WindowsOf(out, first + 2 * i, kernel[i], stride[i], dilation[i], site);
  if (!out.status().ok()) return out;
  Dims order;
  for (size_t i = 0; i < first; ++i) order.push_back(static_cast<int64_t>(i));
  for (size_t i = 0; i < axes; ++i) order.push_back(static_cast<int64_t>(first + 2 * i));
  for (size_t i = 0; i < axes; ++i) order.push_back(static_cast<int64_t>(first + 2 * i + 1));
  return out.Permute(order, site);
}

}  // namespace uopd::client
