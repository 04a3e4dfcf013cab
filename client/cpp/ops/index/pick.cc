// SPDX-License-Identifier: MIT
#include "client/cpp/ops/index/pick.h"

#include <bit>

#include "client/cpp/graph/build.h"
#include "client/cpp/ops/common.h"
#include "core/ir/build.h"

namespace uopd::client {
namespace {

Dtype BitsOf(Dtype d) {
  switch (ir::ByteSize(d)) {
    case 1:
      return Dtype::U8;
    case 2:
      return Dtype::U16;
    case 4:
      return Dtype::U32;
    default:
      return Dtype::U64;
  }
}

// x, read as bits by f, which gives bits.
template <class F>
Tensor AsBits(const Tensor& x, Site site, F f) {
  const Dtype bits = BitsOf(x.dtype());
  if (x.dtype() == bits) return f(x);
  if (x.dtype() == Dtype::Bool) return f(x.Cast(bits, site)).Cast(Dtype::Bool, site);
  return f(x.Bitcast(bits, site)).Bitcast(x.dtype(), site);
}

// a < b, where NaN is the largest.
Tensor Before(const Tensor& a, const Tensor& b) {
  return ir::IsFloat(a.dtype()) ? (a < b) | (b.IsNan() & a.IsNan().Not()) : a < b;
}

}  // namespace

Tensor PlacesOf(const Tensor& like, int64_t n, Dtype dtype, int64_t behind) {
  Dims dims(static_cast<size_t>(behind) + 1, 1);
  dims[0] = n;
  return IotaLike(like, n, dtype).Reshape(dims);
}

Tensor Picked(const Tensor& hit, const Tensor& back, const Tensor& x, Site site) {
  auto sum = [&](const Tensor& which, const Tensor& from) {
    return Where({which, site}, from, ScalarLike(from, from.dtype(), 0))
        .Sum({0}, false, site)
        .Cast(from.dtype(), site);
  };
  Tensor value = AsBits(x, site, [&](const Tensor& bits) { return sum(hit, bits); });
  if (!ir::IsFloat(x.dtype()) || !value.status().ok()) return value;
  Tensor way = sum(back, x);
  if (!way.status().ok()) return way;
  return fn::WithGradientOf(value, way, site);
}

Tensor AtPositions(const Tensor& x, const Tensor& index, const Tensor& inverse, Site site) {
  const Tensor hit = Operand(index, site) == PlacesOf(x, x.dims()[0], index.dtype(), 2);
  Tensor back = hit;
  if (inverse.state() != nullptr) {
    const Tensor place = PlacesOf(x, index.dims()[0], inverse.dtype(), 1);
    back = back & (inverse.Unsqueeze(1, site) == place);
  }
  return Picked(hit, back, x.Unsqueeze(1, site), site);
}

Tensor CountBelow(const Tensor& sorted, const Tensor& values, bool right, Site site) {
  const int64_t n = sorted.dims()[0];
  const Dtype dtype = PositionDtype(n), common = ir::Promote(sorted.dtype(), values.dtype());
  const Tensor v = values.Cast(common, site).Flatten(0, site).Contiguous(site);
  const Tensor from = sorted.Cast(common, site).Contiguous(site);
  const Tensor zero = ScalarLike(v, dtype, 0);
  // The number is in [low, high]. Every step has the same kernels.
  Tensor low = zero.Expand(v.dims(), site).Contiguous(site);
  Tensor high =
      Made(v, Ctx(v).Int(dtype, n), "CountBelow", site).Expand(v.dims(), site).Contiguous(site);
  const Tensor place = PlacesOf(v, n, dtype, 1);
  for (int step = std::bit_width(static_cast<uint64_t>(n)); step > 0; --step) {
    const Tensor middle = low + ((high - low) >> 1);  // below n while they differ
    const Tensor hit = middle == place;
    const Tensor here = AsBits(from, site, [&](const Tensor& bits) {
      return Where({hit, site}, bits.Unsqueeze(1, site), ScalarLike(bits, bits.dtype(), 0))
          .Sum({0}, false, site)
          .Cast(bits.dtype(), site);
    });
    const Tensor passed = right ? Before(v, here).Not(site) : Before(here, v);
    const Tensor open = low < high;
    const Tensor next_low = Where({open & passed, site}, middle + 1, low);
    const Tensor next_high = Where({open & passed.Not(site), site}, middle, high);
    low = next_low.Contiguous(site);
    high = next_high.Contiguous(site);
  }
  return low.Reshape(values.dims(), site);
}

}  // namespace uopd::client
