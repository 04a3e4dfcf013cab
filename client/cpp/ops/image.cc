// SPDX-License-Identifier: MIT
#include "uopd/image.h"

#include <algorithm>
#include <type_traits>

#include "client/cpp/ops/common.h"
#include "client/cpp/ops/sized.h"
#include "core/ir/build.h"
#include "core/rules/gradient.h"
#include "uopd/pooling.h"

namespace uopd::client::fn {
namespace {

// Bytes between those of a and of b, at rest / below of the way along the axis, to whole numbers as
// PyTorch does it: the weights are integers, with as many bits as 16-bit arithmetic allows for the
// largest of them.
Tensor BetweenBytes(const Tensor& a, const Tensor& b, const Tensor& rest, int64_t below,
                    int64_t axis, int64_t n, bool align, Site site) {
  const int64_t size = rest.dims()[0];
  int64_t most = 0;
  for (int64_t i = 0; i < size; ++i) {
    const int64_t above =
        align ? i * (size > 1 ? n - 1 : 0) : std::max<int64_t>((i * 2 + 1) * n - size, 0);
    most = std::max({most, above % below, below - above % below});
  }
  int bits = 0;
  while (bits < 22 && most * (int64_t{4} << bits) + below < below * (int64_t{1} << 16)) ++bits;
  Dims column(a.dims().size(), 1);
  column[static_cast<size_t>(axis)] = size;
  auto weight = [&](const Tensor& part) {  // rounded
    return (part * (int64_t{2} << bits) + below)
        .FloorDiv(2 * below)
        .Cast(Dtype::I32, site)
        .Reshape(column, site);
  };
  const Tensor sum = a.Cast(Dtype::I32, site) * weight(below - rest) +
                     b.Cast(Dtype::I32, site) * weight(rest) +
                     (bits > 0 ? int64_t{1} << (bits - 1) : 0);
  return (sum >> bits).Cast(Dtype::U8, site);
}

// One axis, which has n elements (a number or a scalar tensor), resized: the position of element i
// is above / below, an exact quotient.
template <class N>
Tensor Resized(const Tensor& x, int64_t axis, const N& n, int64_t size, InterpolateMode mode,
               bool align, Site site) {
  const Tensor i = IotaLike(x, size, Dtype::I64);
  auto element = [&](const Tensor& at) {
    return x.IndexSelect(axis, at.Maximum(0).Minimum(n - 1), site);
  };
  if (mode == InterpolateMode::kNearest) return element((i * n).FloorDiv(size));
  if (mode == InterpolateMode::kNearestExact) return element(((i * 2 + 1) * n).FloorDiv(2 * size));
  const int64_t below = align ? std::max<int64_t>(size - 1, 1) : 2 * size;
  Tensor above = !align ? (i * 2 + 1) * n - size : size > 1 ? i * (n - 1) : i * 0;
  if (mode == InterpolateMode::kLinear) above = above.Maximum(0);
  const Tensor low = above.FloorDiv(below);
  if constexpr (std::is_integral_v<N>) {
    if (x.dtype() == Dtype::U8)
      return BetweenBytes(element(low), element(low + 1), above - low * below, below, axis, n,
                          align, site);
  }
  Dims column(x.dims().size(), 1);
  column[static_cast<size_t>(axis)] = size;
  const Tensor t = ((above - low * below).Cast(x.dtype(), site) / static_cast<double>(below))
                       .Reshape(column, site);
  if (mode == InterpolateMode::kLinear) return element(low) * (1.0 - t) + element(low + 1) * t;
  constexpr double a = -0.75;
  // The kernel for distances up to 1, and from 1 to 2.
  auto near = [&](const Tensor& d) { return (d * (a + 2) - (a + 3)) * d * d + 1.0; };
  auto far = [&](const Tensor& d) { return ((d * a - 5 * a) * d + 8 * a) * d - 4 * a; };
  return element(low - 1) * far(t + 1.0) + element(low) * near(t) +
         element(low + 1) * near(1.0 - t) + element(low + 2) * far(2.0 - t);
}

// kernel, stride, padding and dilation for each spatial axis, or the error.
struct Patches {
  std::optional<Tensor> error;
  Dims kernel, stride, padding, dilation;
};
Patches Prepare(const Tensor& x, size_t axes, const Dims& kernel, const PatchOptions& options,
                std::string_view what, Site site) {
  const auto k = PerAxis(kernel, axes), s = PerAxis(options.stride, axes),
             p = PerAxis(options.padding, axes), d = PerAxis(options.dilation, axes);
  if (axes == 0 || !k || !s || !p || !d)
    return {Wrong(x, what, site, Cat("kernel ", Text(kernel), " for shape ", Text(x.dims())))};
  return {std::nullopt, *k, *s, *p, *d};
}

}  // namespace

Tensor Interpolate(const Tensor& x, const Dims& size, InterpolateMode mode, bool align_corners,
                   Site site) {
  if (auto error = FirstError("Interpolate", {&x}, site)) return *error;
  if (mode == InterpolateMode::kArea) return AdaptiveAvgPool(x, size, site);
  const auto sizes = PerAxis(size, x.rank() < 3 ? 0 : static_cast<size_t>(x.rank() - 2));
  bool fits = x.rank() >= 3 && sizes.has_value();
  for (size_t i = 0; fits && i < sizes->size(); ++i)
    fits = (*sizes)[i] > 0 && (*sizes)[i] <= INT32_MAX && x.dims()[2 + i] > 0;
  if (!fits)
    return Wrong(x, "Interpolate", site, Cat("size ", Text(size), " for shape ", Text(x.dims())));
  const bool nearest = mode == InterpolateMode::kNearest || mode == InterpolateMode::kNearestExact;
  const bool linear = mode == InterpolateMode::kLinear;
  Tensor out = nearest || (linear && x.dtype() == Dtype::U8) ? Another(x) : Wide(x, site);
  for (size_t i = sizes->size();
       i-- > 0;) {  // the last axis first: bytes are rounded for each axis
    const auto axis = static_cast<int64_t>(2 + i);
    const int64_t size = (*sizes)[i], n = out.dims()[2 + i];
    if (!ShapeOf(out)[2 + i].Is(ir::Op::CONST)) {
      // The weights of bytes are chosen with the numbers.
      if (linear && x.dtype() == Dtype::U8) return *Symbolic(x, "Interpolate", site);
      out = Resized(out, axis, out.Length(axis, site), size, mode, align_corners, site);
    } else if (n != size || mode == InterpolateMode::kCubic) {
      out = Resized(out, axis, n, size, mode, align_corners, site);
    }
  }
  return out.Cast(nearest || linear ? x.dtype() : FloatOf(x.dtype()), site);
}

Tensor PixelShuffle(const Tensor& x, int64_t factor, Site site) {
  if (auto error = FirstError("PixelShuffle", {&x}, site)) return *error;
  const Dims& d = x.dims();
  if (d.size() == 4 && !ShapeOf(x)[1].Is(ir::Op::CONST)) return *Symbolic(x, "PixelShuffle", site);
  if (d.size() != 4 || factor < 1 || factor > (1 << 20) || d[1] % (factor * factor) != 0)
    return Wrong(x, "PixelShuffle", site, Cat("factor ", factor, " for shape ", Text(d)));
  const int64_t c = d[1] / (factor * factor);
  ir::UOpContext& ctx = Ctx(x);
  const ir::SymbolicDims n = SizesOf(x);
  const ir::UOp r = ctx.Idx(factor), channels = ctx.Idx(c);
  const Tensor split = ReshapeTo(x, {n[0], channels, r, r, n[2], n[3]}, "PixelShuffle", site);
  return ReshapeTo(split.Permute({0, 1, 4, 2, 5, 3}, site),
                   {n[0], channels, ProductOf(ctx, n[2], r), ProductOf(ctx, n[3], r)},
                   "PixelShuffle", site);
}
Tensor PixelUnshuffle(const Tensor& x, int64_t factor, Site site) {
  if (auto error = Refused("PixelUnshuffle", {&x}, site)) return *error;
  const Dims& d = x.dims();
  if (d.size() != 4 || factor < 1 || d[2] % factor != 0 || d[3] % factor != 0)
    return Wrong(x, "PixelUnshuffle", site, Cat("factor ", factor, " for shape ", Text(d)));
  const int64_t h = d[2] / factor, w = d[3] / factor;
  return x.Reshape({d[0], d[1], h, factor, w, factor}, site)
      .Permute({0, 1, 3, 5, 2, 4}, site)
      .Reshape({d[0], d[1] * factor * factor, h, w}, site);
}

Tensor Unfold(const Tensor& x, const Dims& kernel, const PatchOptions& options, Site site) {
  if (auto error = Refused("Unfold", {&x}, site)) return *error;
  const size_t axes = x.rank() < 3 ? 0 : static_cast<size_t>(x.rank() - 2);
  const Patches p = Prepare(x, axes, kernel, options, "Unfold", site);
  if (p.error) return *p.error;
  Tensor windows = Padded(x, p.padding, 0, site).Windows(p.kernel, p.stride, p.dilation, site);
  if (!windows.status().ok()) return windows;
  const Dims& d = windows.dims();
  Dims order = {0, 1};
  for (const size_t first : {2 + axes, size_t{2}}) {
    for (size_t i = 0; i < axes; ++i) order.push_back(static_cast<int64_t>(first + i));
  }
  const int64_t rows = x.dims()[1] * ir::Product(p.kernel),
                count = ir::Product(std::span(d).subspan(2, axes));
  return windows.Permute(order, site).Reshape({x.dims()[0], rows, count}, site);
}

Tensor Fold(const Tensor& x, const Dims& size, const Dims& kernel, const PatchOptions& options,
            Site site) {
  if (auto error = Refused("Fold", {&x}, site)) return *error;
  const Patches p = Prepare(x, size.size(), kernel, options, "Fold", site);
  if (p.error) return *p.error;
  auto wrong = [&] {
    return Wrong(x, "Fold", site,
                 Cat("kernel ", Text(kernel), " and size ", Text(size), " for ",
                     ir::Name(x.dtype()), " ", Text(x.dims())));
  };
  const int64_t each = ir::Product(p.kernel);
  bool fits = x.rank() == 3 && each > 0 && x.dims()[1] % each == 0 && ir::IsFloat(x.dtype());
  for (int64_t d : size) fits &= d >= 0 && d <= INT32_MAX;
  if (!fits) return wrong();
  Dims image = {x.dims()[0], x.dims()[1] / each};
  image.insert(image.end(), size.begin(), size.end());
  // The gradient of Unfold, which is linear: what it is taken of does not matter.
  const Tensor any = Like(x, 0).Expand(image, site);
  Tensor patches = Unfold(any, kernel, options, site);
  if (!patches.status().ok()) return patches;
  if (patches.dims() != x.dims()) return wrong();
  const ir::UOp target = Value(any);
  const auto g = rules::Gradient(Ctx(x), Value(patches), Value(x), std::span(&target, 1));
  if (!g.ok()) return Poisoned(x.state()->graph, Located("Fold", site, g.status()));
  return Made(x, (*g)[0], "Fold", site);
}

}  // namespace uopd::client::fn
