// SPDX-License-Identifier: MIT
// Reading images at places that tensors give.
#include <cmath>

#include "client/cpp/onnx/run/registry.h"
#include "core/base/text.h"
#include "uopd/image.h"
#include "uopd/math.h"
#include "uopd/movement.h"

namespace uopd::client::onnx {
namespace {

enum class Beyond { kZeros, kBorder, kReflection };

// Mirrored at `low` and `high` until it is between them.
Tensor Reflected(const Tensor& x, double low, double high) {
  const double width = high - low;
  if (width <= 0) return fn::FullLike(x, low);
  const Tensor off = (x - low).Abs();
  const Tensor turns = (off / width).Floor(), rest = off - turns * width;
  const Tensor odd = (turns % 2.0) == 1.0;
  return Where(odd, width - rest, rest) + low;
}

struct GridAxis {
  int64_t size = 0;
  Tensor place;  // (n, points), f32, in elements
};

struct GridRules {
  Beyond beyond = Beyond::kZeros;
  bool corners = false;
};

// A place that is beyond the image, brought back.
Tensor BroughtBack(const Tensor& place, int64_t size, const GridRules& r) {
  const auto last = static_cast<double>(size - 1);
  if (r.beyond == Beyond::kBorder) return place.Clip(0, last);
  const double low = r.corners ? 0 : -0.5, high = r.corners ? last : last + 0.5;
  const Tensor out = (place < low) | (place > high);
  return r.beyond == Beyond::kZeros ? place : Where(out, Reflected(place, low, high), place);
}

// x (n, channels, spatial as one axis) at whole places: (n, channels, points).
Tensor ReadAt(const Tensor& x, std::span<const GridAxis> axes, const std::vector<Tensor>& places,
              const GridRules& r) {
  Tensor flat, inside;
  for (size_t i = 0; i < axes.size(); ++i) {
    const auto last = static_cast<double>(axes[i].size - 1);
    const Tensor p =
        r.beyond == Beyond::kZeros ? places[i] : BroughtBack(places[i], axes[i].size, r);
    const Tensor within = (p >= 0.0) & (p <= last);
    const Tensor whole = p.Clip(0, last).Cast(Dtype::I64);
    flat = i == 0 ? whole : flat * axes[i].size + whole;
    inside = i == 0 ? within : inside & within;
  }
  if (!x.status().ok() || !flat.status().ok()) return x.status().ok() ? flat : x;
  const Dims dims{x.dims()[0], x.dims()[1], flat.dims()[1]};
  const Tensor read = x.Gather(2, flat.Unsqueeze(1).Expand(dims));
  return r.beyond == Beyond::kZeros ? Where(inside.Unsqueeze(1), read, fn::ZerosLike(read)) : read;
}

// The weights of the elements around a place: two for linear, four for cubic.
std::vector<Tensor> GridWeights(const Tensor& rest, bool cubic) {
  if (!cubic) return {1.0 - rest, rest};
  constexpr double a = -0.75;
  std::vector<Tensor> out;
  for (const double k : {-1.0, 0.0, 1.0, 2.0}) {
    const Tensor d = (rest - k).Abs();
    out.push_back(k == 0 || k == 1 ? ((d * (a + 2) - (a + 3)) * d * d + 1.0)
                                   : ((d - 5.0) * d + 8.0) * d * a - 4 * a);
  }
  return out;
}

absl::Status RunGridSample(Call& c) {
  const int64_t spatial = c.Rank(0) - 2;
  if (spatial < 1 || c.Rank(1) != c.Rank(0) || c.Shape(1).back() != spatial)
    return c.Wrong("the grid does not fit the input");
  std::string_view mode = c.String("mode", c.opset() < 20 ? "bilinear" : "linear");
  if (mode == "bilinear") mode = "linear";
  if (mode == "bicubic") mode = "cubic";
  const std::string_view padding = c.String("padding_mode", "zeros");
  if ((mode != "linear" && mode != "cubic" && mode != "nearest") ||
      (padding != "zeros" && padding != "border" && padding != "reflection"))
    return c.Wrong("the attribute mode or padding_mode is not known");
  GridRules r{.corners = c.Int("align_corners", 0) != 0};
  if (padding == "border") r.beyond = Beyond::kBorder;
  if (padding == "reflection") r.beyond = Beyond::kReflection;
  const Dims& in = c.Shape(0);
  const Dims& grid = c.Shape(1);
  const int64_t points = ir::Product(std::span<const int64_t>(grid).subspan(1)) / spatial;
  const Tensor g = c.X(1).Cast(Dtype::F32).Reshape({in[0], points, spatial});
  std::vector<GridAxis> axes;
  for (int64_t i = 0; i < spatial; ++i) {
    const int64_t size = in[static_cast<size_t>(i + 2)];
    if (size < 1) return c.Wrong("an axis of the input has no elements");
    const Tensor n = g.Select(2, spatial - 1 - i);  // the first coordinate is that of the last axis
    const auto length = static_cast<double>(size);
    axes.push_back(
        {size, r.corners ? (n + 1.0) * ((length - 1) / 2) : ((n + 1.0) * length - 1.0) * 0.5});
  }
  const Tensor x = c.X(0).Reshape({in[0], in[1], -1});
  Tensor y;
  if (mode == "nearest") {
    std::vector<Tensor> places;
    for (const GridAxis& a : axes) places.push_back(fn::Round(a.place));
    y = ReadAt(x, axes, places, r);
  } else {
    const bool cubic = mode == "cubic";
    std::vector<Tensor> first;
    std::vector<std::vector<Tensor>> weights;
    for (const GridAxis& a : axes) {
      const Tensor place = cubic ? a.place : BroughtBack(a.place, a.size, r);
      first.push_back(place.Floor() - (cubic ? 1.0 : 0.0));
      weights.push_back(GridWeights(place - place.Floor(), cubic));
    }
    const int64_t taps = cubic ? 4 : 2;
    int64_t count = 1;
    for (int64_t i = 0; i < spatial; ++i) count *= taps;
    UOPD_TRY(c.walk().Charge(count));
    for (int64_t k = 0; k < count; ++k) {
      std::vector<Tensor> places;
      Tensor weight;
      for (int64_t i = 0, left = k; i < spatial; ++i, left /= taps) {
        const auto axis = static_cast<size_t>(i), tap = static_cast<size_t>(left % taps);
        places.push_back(first[axis] + static_cast<double>(tap));
        weight = i == 0 ? weights[axis][tap] : weight * weights[axis][tap];
      }
      const Tensor part = ReadAt(x, axes, places, r) * weight.Unsqueeze(1);
      y = k == 0 ? part : y + part;
    }
  }
  Dims out{in[0], in[1]};
  out.insert(out.end(), grid.begin() + 1, grid.end() - 1);
  return c.OutAs(0, y.Reshape(out));
}

// The places that affine maps (n, d, d + 1) of a regular grid give.
absl::Status RunAffineGrid(Call& c) {
  UOPD_ASSIGN(const Dims size, c.Ints(1));
  const bool corners = c.Int("align_corners", 0) != 0;
  if (c.Rank(0) != 3 || size.size() < 4 || size.size() > static_cast<size_t>(ir::kMaxRank) ||
      c.Shape(0)[2] != static_cast<int64_t>(size.size()) - 1)
    return c.Wrong("theta does not fit the size");
  const size_t spatial = size.size() - 2;
  std::vector<Tensor> coordinates;
  const Dims whole(size.begin() + 2, size.end());
  for (size_t i = spatial; i-- > 0;) {
    const auto length = static_cast<double>(whole[i]);
    const Tensor steps = c.client().Arange(0, whole[i]).Cast(Dtype::F32);
    Tensor along = corners ? steps * (2 / std::max(length - 1, 1.0)) - 1.0
                           : (steps * 2.0 + 1.0) * (1 / length) - 1.0;
    Dims dims(spatial, 1);
    dims[i] = whole[i];
    coordinates.push_back(along.Reshape(dims).Expand(whole).Reshape({-1}));
  }
  coordinates.push_back(fn::OnesLike(coordinates[0]));
  const Tensor places = Stack(coordinates, 0);  // (d + 1, points)
  Dims out{c.Shape(0)[0]};
  out.insert(out.end(), whole.begin(), whole.end());
  out.push_back(static_cast<int64_t>(spatial));
  return c.OutAs(0, c.X(0).Cast(Dtype::F32).MatMul(places).Transpose().Reshape(out));
}

}  // namespace

OpRows GridOps() {
  return {
      {"GridSample", 16, 2, 2, RunGridSample},
      {"AffineGrid", 20, 2, 2, RunAffineGrid},
  };
}

}  // namespace uopd::client::onnx
