// SPDX-License-Identifier: MIT
// Resize and Upsample, one axis after the other: each element of the result is a weighted sum of
// elements of the axis (taps), whose places and weights the client computes.
#include <algorithm>
#include <cmath>

#include "client/cpp/onnx/run/registry.h"
#include "core/base/text.h"
#include "uopd/movement.h"

namespace uopd::client::onnx {
namespace {

struct ResizeRules {
  std::string_view mode, transform, nearest;
  double a = -0.75;  // of the cubic: Keys, see InterpolateMode (image.h)
  double outside = 0;
  bool exclude_outside = false, antialias = false;
};

struct ResizedAxis {
  int64_t in = 0, out = 0;
  double scale = 1;
  double roi_begin = 0, roi_end = 1;
};

// The place in the input that element i of the result has.
double PlaceOf(const ResizedAxis& axis, std::string_view transform, int64_t i) {
  const auto x = static_cast<double>(i), in = static_cast<double>(axis.in);
  const double out = axis.scale * in;  // before it is rounded
  if (transform == "align_corners") return out == 1 ? 0 : x * (in - 1) / (out - 1);
  if (transform == "asymmetric") return x / axis.scale;
  if (transform == "tf_crop_and_resize") {
    const double width = axis.roi_end - axis.roi_begin;
    const double within = out == 1 ? width * (in - 1) / 2 : x * width * (in - 1) / (out - 1);
    return within + axis.roi_begin * (in - 1);
  }
  if (transform == "tf_half_pixel_for_nn") return (x + 0.5) / axis.scale;
  const double half = (x + 0.5) / axis.scale - 0.5;
  if (transform == "pytorch_half_pixel") return out == 1 ? -0.5 : half;
  if (transform == "half_pixel_symmetric")
    return in / 2 * (1 - static_cast<double>(axis.out) / out) + half;
  return half;
}

double NearestOf(double x, std::string_view rule) {
  if (rule == "floor") return std::floor(x);
  if (rule == "ceil") return std::ceil(x);
  if (rule == "round_prefer_ceil") return std::floor(x + 0.5);
  return std::ceil(x - 0.5);
}

double CubicOf(double x, double a) {
  x = std::abs(x);
  if (x <= 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
  if (x < 2) return a * (((x - 5) * x + 8) * x - 4);
  return 0;
}

// How many elements of the input an element of the result has at most.
int64_t TapCount(const ResizedAxis& axis, const ResizeRules& r) {
  if (r.mode == "nearest") return 1;
  const double shrink = r.antialias && axis.scale < 1 ? axis.scale : 1;
  const double reach = std::ceil((r.mode == "cubic" ? 2 : 1) / shrink);
  return 2 * static_cast<int64_t>(std::min(reach, static_cast<double>(ir::kMaxElements)));
}

// Places (clamped) and weights: taps[k] has one entry for each element of the result.
struct Taps {
  std::vector<std::vector<int64_t>> places;
  std::vector<std::vector<float>> weights;
  std::vector<int64_t> is_outside;  // of tf_crop_and_resize
};

Taps TapsOf(const ResizedAxis& axis, const ResizeRules& r) {
  const bool nearest = r.mode == "nearest", cubic = r.mode == "cubic";
  const double shrink = r.antialias && axis.scale < 1 ? axis.scale : 1;
  const int64_t count = TapCount(axis, r), reach = nearest ? 0 : count / 2;
  Taps taps{.places = std::vector(static_cast<size_t>(count), std::vector<int64_t>{}),
            .weights = std::vector(static_cast<size_t>(count), std::vector<float>{}),
            .is_outside = {}};
  std::vector<double> w(static_cast<size_t>(count), 1);
  for (int64_t i = 0; i < axis.out; ++i) {
    const double x = PlaceOf(axis, r.transform, i);
    const bool crop = r.transform == "tf_crop_and_resize";
    taps.is_outside.push_back(crop && (x < 0 || x > static_cast<double>(axis.in - 1)) ? 1 : 0);
    const double first =
        nearest ? NearestOf(x, r.nearest) : std::floor(x) - static_cast<double>(reach) + 1;
    double sum = 0;
    for (size_t k = 0; k < w.size(); ++k) {
      const double place = first + static_cast<double>(k);
      const double off = (place - x) * shrink;
      if (!nearest) w[k] = cubic ? CubicOf(off, r.a) : std::max(0.0, 1 - std::abs(off));
      if (r.exclude_outside && (place < 0 || place >= static_cast<double>(axis.in))) w[k] = 0;
      sum += w[k];
    }
    const bool divides = !nearest && (r.exclude_outside || shrink < 1) && sum != 0;
    for (size_t k = 0; k < w.size(); ++k) {
      const double place = first + static_cast<double>(k);
      taps.places[k].push_back(
          static_cast<int64_t>(std::clamp(place, 0.0, static_cast<double>(axis.in - 1))));
      taps.weights[k].push_back(static_cast<float>(divides ? w[k] / sum : w[k]));
    }
  }
  return taps;
}

absl::StatusOr<Tensor> ResizeAxis(Call& c, Tensor x, int64_t i, const ResizedAxis& axis,
                                  const ResizeRules& r) {
  if (axis.in < 1 || axis.out < 0) return c.Wrong("an axis has no elements");
  constexpr int64_t kMostTaps = 1 << 24;  // each of them takes 12 bytes of the client
  const int64_t count = TapCount(axis, r);
  if (axis.out > kMostTaps / count)
    return c.Refuse(Cat("an axis would read ", count, " elements for each of ", axis.out));
  UOPD_TRY(c.walk().Charge(count));
  UOPD_TRY(c.walk().ChargeBytes(12 * static_cast<uint64_t>(count * axis.out)));
  const Taps taps = TapsOf(axis, r);
  Dims along(static_cast<size_t>(x.rank()), 1);
  along[static_cast<size_t>(i)] = axis.out;
  Tensor y;
  for (size_t k = 0; k < taps.places.size(); ++k) {
    Tensor part = x.IndexSelect(i, c.client().FromHost(taps.places[k], {axis.out}));
    if (r.mode != "nearest") {
      if (std::ranges::all_of(taps.weights[k], [](float w) { return w == 0; })) continue;
      part = part * c.client().FromHost(taps.weights[k], along);
    }
    y = y.state() == nullptr ? part : y + part;
  }
  if (y.state() == nullptr) return c.Refuse("no element of the input is near the result");
  if (std::ranges::count(taps.is_outside, 1) > 0) {
    const Tensor outside = c.client().FromHost(taps.is_outside, along) != 0;
    y = Where(outside, fn::FullLike(y, r.outside), y);
  }
  return y;
}

bool IsOneOf(std::string_view name, std::initializer_list<std::string_view> all) {
  return std::ranges::find(all, name) != all.end();
}

// The axes of `axes`, whose scales or sizes are given.
absl::StatusOr<std::vector<ResizedAxis>> ResizedAxes(Call& c, const Dims& axes,
                                                     const std::vector<double>& scales,
                                                     const Dims& sizes) {
  if ((scales.empty() ? sizes.size() : scales.size()) != axes.size())
    return c.Wrong("there is not one scale or size for each axis");
  std::vector<ResizedAxis> out(axes.size());
  double least = INFINITY, most = 0;
  for (size_t i = 0; i < axes.size(); ++i) {
    ResizedAxis& a = out[i];
    a.in = c.Shape(0)[static_cast<size_t>(axes[i])];
    a.scale =
        scales.empty() ? static_cast<double>(sizes[i]) / static_cast<double>(a.in) : scales[i];
    const double size = std::floor(a.scale * static_cast<double>(a.in));
    if (!(a.scale > 0) || !(size < static_cast<double>(ir::kMaxElements)))
      return c.Wrong(Cat("a scale is ", a.scale));
    a.out = scales.empty() ? sizes[i] : static_cast<int64_t>(size);
    least = std::min(least, a.scale);
    most = std::max(most, a.scale);
  }
  const std::string_view policy = c.String("keep_aspect_ratio_policy", "stretch");
  if (!IsOneOf(policy, {"stretch", "not_larger", "not_smaller"}))
    return c.Wrong("the attribute keep_aspect_ratio_policy is not known");
  if (policy == "stretch" || !scales.empty()) return out;
  for (ResizedAxis& a : out) {
    a.scale = policy == "not_larger" ? least : most;
    const double size = std::floor(a.scale * static_cast<double>(a.in) + 0.5);
    if (!(size < static_cast<double>(ir::kMaxElements))) return c.Wrong(Cat("a size is ", size));
    a.out = static_cast<int64_t>(size);
  }
  return out;
}

absl::Status ResizeBy(Call& c, const ResizeRules& r, const Dims& axes,
                      std::vector<ResizedAxis> resized) {
  if (!IsOneOf(r.mode, {"nearest", "linear", "cubic"}))
    return c.Wrong("the attribute mode is not known");
  if (r.mode == "nearest" && r.antialias) return c.Wrong("antialias is not for the mode nearest");
  Tensor x = c.X(0);
  const bool whole = !ir::IsFloat(x.dtype());
  if (r.mode != "nearest" && (whole || ir::IsSmallFloat(x.dtype()))) x = x.Cast(Dtype::F32);
  const bool crop = r.transform == "tf_crop_and_resize";
  for (size_t i = 0; i < axes.size(); ++i) {
    if (resized[i].scale == 1 && resized[i].out == resized[i].in && !crop) continue;
    UOPD_ASSIGN(x, ResizeAxis(c, x, axes[i], resized[i], r));
  }
  return c.OutAs(0, x);
}

Dims AllAxes(Call& c) {
  Dims axes;
  for (int64_t i = 0; i < c.Rank(0); ++i) axes.push_back(i);
  return axes;
}

absl::Status RunResize(Call& c) {
  ResizeRules r{.mode = c.String("mode", "nearest"),
                .transform = c.String("coordinate_transformation_mode", "half_pixel"),
                .nearest = c.String("nearest_mode", "round_prefer_floor"),
                .a = c.Float("cubic_coeff_a", -0.75),
                .outside = c.Float("extrapolation_value", 0),
                .exclude_outside = c.Int("exclude_outside", 0) != 0,
                .antialias = c.Int("antialias", 0) != 0};
  if (!IsOneOf(r.transform,
               {"half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "align_corners",
                "asymmetric", "tf_crop_and_resize", "tf_half_pixel_for_nn"}) ||
      !IsOneOf(r.nearest, {"round_prefer_floor", "round_prefer_ceil", "floor", "ceil"}))
    return c.Wrong("coordinate_transformation_mode or nearest_mode is not known");
  UOPD_ASSIGN(const Dims axes, c.Axes(c.IntList("axes", AllAxes(c)), c.Rank(0)));
  std::vector<double> scales, roi;
  Dims sizes;
  if (c.Has(2) && ir::Product(c.Shape(2)) > 0) {
    UOPD_ASSIGN(scales, c.Floats(2));
  } else if (c.Has(3)) {
    UOPD_ASSIGN(sizes, c.Ints(3));
  }
  UOPD_ASSIGN(std::vector<ResizedAxis> resized, ResizedAxes(c, axes, scales, sizes));
  if (r.transform == "tf_crop_and_resize") {
    if (!c.Has(1)) return c.Wrong("the input roi is missing");
    UOPD_ASSIGN(roi, c.Floats(1));
    if (roi.size() != 2 * axes.size()) return c.Wrong("the input roi has a wrong length");
    for (const double v : roi)
      if (!(std::abs(v) < 1e9)) return c.Wrong(Cat("the input roi has ", v));
    for (size_t i = 0; i < axes.size(); ++i) {
      resized[i].roi_begin = roi[i];
      resized[i].roi_end = roi[axes.size() + i];
    }
  }
  return ResizeBy(c, r, axes, std::move(resized));
}

// Before operator set 11: places are i / scale, and nearest is the one before.
absl::Status RunUpsample(Call& c) {
  ResizeRules r{.mode = c.String("mode", "nearest"), .transform = "asymmetric", .nearest = "floor"};
  if (r.mode == "bilinear") r.mode = "linear";
  std::vector<double> scales;
  if (c.Has(1)) {
    UOPD_ASSIGN(scales, c.Floats(1));
  } else {
    scales = c.FloatList("scales");
  }
  const Dims axes = AllAxes(c);
  UOPD_ASSIGN(std::vector<ResizedAxis> resized, ResizedAxes(c, axes, scales, {}));
  return ResizeBy(c, r, axes, std::move(resized));
}

}  // namespace

OpRows ResizeOps() {
  return {
      {"Resize", 10, 2, 2, RunUpsample},
      {"Resize", 11, 1, 4, RunResize},
      {"Upsample", 7, 1, 2, RunUpsample},
  };
}

}  // namespace uopd::client::onnx
