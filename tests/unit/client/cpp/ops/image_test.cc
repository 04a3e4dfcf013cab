// SPDX-License-Identifier: MIT
// Pooling, transposed convolution and resizing, against loops.
#include <limits>

#include "tests/unit/client/cpp/ops/op_cases.h"
#include "uopd/image.h"
#include "uopd/pooling.h"

namespace uopd::client::image_cases {
namespace {

using fn::InterpolateMode;
using ::testing::ElementsAre;

class ImageTest : public OpCases {};

struct Pool {
  int64_t n, kernel, stride, padding, dilation;
  bool ceil;
};
const std::vector<Pool>& Pools() {
  static const auto* const pools = new std::vector<Pool>{
      {6, 2, 2, 0, 1, false}, {7, 2, 2, 0, 1, true}, {7, 3, 2, 1, 1, true}, {5, 3, 1, 1, 1, false},
      {8, 2, 3, 1, 2, true},  {4, 2, 2, 1, 1, true}, {5, 2, 4, 0, 1, true}, {9, 3, 2, 0, 2, false}};
  return *pools;
}
int64_t OutOf(const Pool& p) {
  const int64_t span = (p.kernel - 1) * p.dilation + 1, room = p.n + 2 * p.padding - span;
  int64_t out = (p.ceil ? (room + p.stride - 1) / p.stride : room / p.stride) + 1;
  if (p.ceil && (out - 1) * p.stride >= p.n + p.padding) --out;
  return out;
}

TEST_F(ImageTest, PoolsRows) {
  for (const Pool& p : Pools()) {
    SCOPED_TRACE(testing::Message() << p.n << " " << p.kernel << " " << p.stride << " " << p.padding
                                    << " " << p.dilation << p.ceil);
    const auto x = Scattered(static_cast<size_t>(2 * p.n));
    const Tensor t = In({2, 1, p.n}, x, Dtype::F64);
    for (const bool count : {true, false}) {
      std::vector<double> most, where, mean;
      for (int64_t c = 0; c < 2; ++c)
        for (int64_t o = 0; o < OutOf(p); ++o) {
          double best = -INFINITY, sum = 0;
          int64_t at = -1, number = 0;
          for (int64_t k = 0; k < p.kernel; ++k) {
            const int64_t i = o * p.stride - p.padding + k * p.dilation;
            number += i < p.n + p.padding && (count || (i >= 0 && i < p.n)) ? 1 : 0;
            if (i < 0 || i >= p.n) continue;
            const double v = x[static_cast<size_t>(c * p.n + i)];
            sum += v;
            if (v > best) best = v, at = i;
          }
          most.push_back(best), where.push_back(static_cast<double>(at)),
              mean.push_back(sum / static_cast<double>(number));
        }
      const fn::PoolOptions o{.stride = {p.stride},
                              .padding = {p.padding},
                              .dilation = {p.dilation},
                              .count_padding = count,
                              .ceil_mode = p.ceil};
      EXPECT_EQ(Out(fn::MaxPool(t, {p.kernel}, o)), most);
      const auto [values, index] = fn::MaxPoolWithIndices(t, {p.kernel}, o);
      EXPECT_EQ(Out(values), most);
      EXPECT_EQ(Out(index), where);
      ExpectNear(Out(fn::AvgPool(t, {p.kernel}, o)), mean, Dtype::F64, 16, "avg");
      if (p.n > 7) continue;
      CheckGradient({{{2, 1, p.n}, x}},
                    [&](const std::vector<Tensor>& v) { return fn::AvgPool(v[0], {p.kernel}, o); });
      CheckGradient({{{2, 1, p.n}, x}}, [&](const std::vector<Tensor>& v) {
        return fn::MaxPoolWithIndices(v[0], {p.kernel}, o).first;
      });
    }
  }
}

TEST_F(ImageTest, PoolsPlanesAndVolumes) {
  const Tensor x = In({1, 1, 2, 4}, {1, 5, 2, 2, 3, 4, NAN, 0});
  const auto [values, index] = fn::MaxPoolWithIndices(x, {2});
  EXPECT_THAT(Out(index), ElementsAre(1, 6));
  EXPECT_THAT(Out(fn::MaxUnpool(In({1, 1, 1, 2}, {5, 7}), index, {2, 4})),
              ElementsAre(0, 5, 0, 0, 0, 0, 7, 0));
  const Tensor volume = Ramp({1, 2, 2, 3, 2});
  EXPECT_THAT(Out(fn::MaxPoolWithIndices(volume, {2, 3, 2}).second), ElementsAre(11, 11));
  EXPECT_THAT(Out(fn::MaxPoolWithIndices(In({1, 1, 2}, {3, 3}, Dtype::I8), {2}).second),
              ElementsAre(0));
  EXPECT_FALSE(fn::MaxUnpool(values, volume, {2}).status().ok());
  EXPECT_FALSE(fn::MaxPoolWithIndices(Ramp({2, 2}), {2}).first.status().ok());
  EXPECT_FALSE(fn::MaxPoolWithIndices(Ramp({1, 2, 3}), {2, 2}).second.status().ok());
  CheckGradient({Input({1, 1, 1, 2})},
                [&](const std::vector<Tensor>& t) { return fn::MaxUnpool(t[0], index, {2, 4}); });
}

TEST_F(ImageTest, PoolsToSizes) {
  for (const auto& [n, size] :
       {std::pair<int64_t, int64_t>{6, 3}, {7, 3}, {5, 5}, {3, 5}, {4, 1}, {10, 7}}) {
    const auto x = Scattered(static_cast<size_t>(n));
    std::vector<double> most, mean;
    for (int64_t i = 0; i < size; ++i) {
      const int64_t from = i * n / size, to = ((i + 1) * n + size - 1) / size;
      double best = -INFINITY, sum = 0;
      for (int64_t k = from; k < to; ++k)
        best = std::max(best, x[static_cast<size_t>(k)]), sum += x[static_cast<size_t>(k)];
      most.push_back(best), mean.push_back(sum / static_cast<double>(to - from));
    }
    const Tensor t = In({1, 1, n}, x, Dtype::F64);
    EXPECT_EQ(Out(fn::AdaptiveMaxPool(t, {size})), most);
    ExpectNear(Out(fn::AdaptiveAvgPool(t, {size})), mean, Dtype::F64, 16, "adaptive");
    ExpectNear(Out(fn::Interpolate(t, {size}, InterpolateMode::kArea)), mean, Dtype::F64, 16,
               "area");
  }
  EXPECT_EQ(fn::AdaptiveAvgPool(Ramp({1, 2, 5, 7}), {2, 3}).dims(), (Dims{1, 2, 2, 3}));
  EXPECT_THAT(Out(fn::AdaptiveAvgPool(Ramp({1, 1, 2, 2}), {1})), ElementsAre(1.5));
  EXPECT_FALSE(fn::AdaptiveAvgPool(Ramp({2, 2}), {1}).status().ok());
  CheckGradient({Input({1, 1, 5})},
                [](const std::vector<Tensor>& t) { return fn::AdaptiveAvgPool(t[0], {3}); });
}

double Keys(double d) {
  d = std::abs(d);
  const double a = -0.75;
  return d <= 1  ? (a + 2) * d * d * d - (a + 3) * d * d + 1
         : d < 2 ? a * (d * d * d - 5 * d * d + 8 * d - 4)
                 : 0;
}

TEST_F(ImageTest, Resizes) {
  for (const auto& [n, size] :
       {std::pair<int64_t, int64_t>{4, 8}, {5, 3}, {3, 7}, {1, 4}, {6, 1}, {5, 5}, {7, 10}}) {
    const auto x = Scattered(static_cast<size_t>(n));
    const Tensor t = In({1, 1, n}, x, Dtype::F64);
    auto at = [&](int64_t i) {
      return x[static_cast<size_t>(std::min(std::max<int64_t>(i, 0), n - 1))];
    };
    for (const auto mode : {InterpolateMode::kNearest, InterpolateMode::kNearestExact,
                            InterpolateMode::kLinear, InterpolateMode::kCubic}) {
      for (const bool align : {false, true}) {
        std::vector<double> want;
        for (int64_t i = 0; i < size; ++i) {
          if (mode == InterpolateMode::kNearest) want.push_back(at(i * n / size));
          if (mode == InterpolateMode::kNearestExact)
            want.push_back(at((2 * i + 1) * n / (2 * size)));
          if (mode != InterpolateMode::kLinear && mode != InterpolateMode::kCubic) continue;
          double p = align ? (size > 1 ? static_cast<double>(i) * static_cast<double>(n - 1) /
                                             static_cast<double>(size - 1)
                                       : 0)
                           : (static_cast<double>(i) + 0.5) * static_cast<double>(n) /
                                     static_cast<double>(size) -
                                 0.5;
          if (mode == InterpolateMode::kLinear) p = std::max(p, 0.0);
          const auto low = static_cast<int64_t>(std::floor(p + 1e-12));
          double sum = 0;
          for (int64_t k = low - 1; k <= low + 2; ++k) {
            const double d = p - static_cast<double>(k);
            sum += at(k) *
                   (mode == InterpolateMode::kLinear ? std::max(0.0, 1 - std::abs(d)) : Keys(d));
          }
          want.push_back(sum);
        }
        const Tensor y = fn::Interpolate(t, {size}, mode, align);
        ASSERT_TRUE(y.status().ok()) << y.status();
        EXPECT_THAT(Out(y), ::testing::Pointwise(::testing::DoubleNear(1e-12), want))
            << n << " to " << size << " mode " << static_cast<int>(mode) << align;
      }
    }
  }
  const Tensor corner =
      fn::Interpolate(In({1, 1, 2, 2}, {0, 1, 2, 3}), {3}, InterpolateMode::kLinear, true);
  EXPECT_THAT(Out(corner), ElementsAre(0, 0.5, 1, 1, 1.5, 2, 2, 2.5, 3));
  EXPECT_EQ(fn::Interpolate(In({1, 1, 2}, {1, 2}, Dtype::U8), {4}).dtype(), Dtype::U8);
  EXPECT_FALSE(fn::Interpolate(Ramp({1, 1, 2}), {0}).status().ok());
  EXPECT_FALSE(fn::Interpolate(Ramp({1, 2}), {2}).status().ok());
  for (const auto mode :
       {InterpolateMode::kNearest, InterpolateMode::kLinear, InterpolateMode::kCubic})
    CheckGradient({Input({1, 1, 2, 3})}, [&](const std::vector<Tensor>& t) {
      return fn::Interpolate(t[0], {3, 4}, mode);
    });
}

struct Transposed {
  int64_t n, in, out, kernel, stride, padding, extra, dilation, groups;
};

TEST_F(ImageTest, TransposedConvolution) {
  for (const Transposed& c : {Transposed{3, 2, 3, 3, 1, 0, 0, 1, 1},
                              {4, 2, 2, 3, 2, 1, 1, 1, 1},
                              {3, 4, 2, 2, 3, 0, 2, 1, 2},
                              {3, 2, 2, 3, 2, 2, 0, 2, 1},
                              {1, 1, 1, 1, 1, 0, 0, 1, 1},
                              {2, 1, 2, 3, 1, 2, 0, 1, 1}}) {
    const int64_t each = c.out / c.groups, size = (c.n - 1) * c.stride - 2 * c.padding +
                                                  c.dilation * (c.kernel - 1) + c.extra + 1;
    const auto x = Scattered(static_cast<size_t>(2 * c.in * c.n), 1),
               w = Scattered(static_cast<size_t>(c.in * each * c.kernel), 2),
               b = Scattered(static_cast<size_t>(c.out), 3);
    std::vector<double> want;
    for (int64_t s = 0; s < 2; ++s)
      for (int64_t o = 0; o < c.out; ++o)
        for (int64_t p = 0; p < size; ++p) {
          double sum = b[static_cast<size_t>(o)];
          for (int64_t i = 0; i < c.in; ++i) {
            if (i / (c.in / c.groups) != o / each) continue;
            for (int64_t q = 0; q < c.n; ++q)
              for (int64_t k = 0; k < c.kernel; ++k)
                if (q * c.stride - c.padding + k * c.dilation == p)
                  sum += x[static_cast<size_t>((s * c.in + i) * c.n + q)] *
                         w[static_cast<size_t>((i * each + o % each) * c.kernel + k)];
          }
          want.push_back(sum);
        }
    const fn::ConvTransposeOptions options{.stride = {c.stride},
                                           .padding = {c.padding},
                                           .output_padding = {c.extra},
                                           .dilation = {c.dilation},
                                           .groups = c.groups};
    auto f = [&](const std::vector<Tensor>& t) {
      return fn::ConvTranspose(t[0], t[1], t[2], options);
    };
    const Tensor y = f({In({2, c.in, c.n}, x, Dtype::F64),
                        In({c.in, each, c.kernel}, w, Dtype::F64), In({c.out}, b, Dtype::F64)});
    ASSERT_TRUE(y.status().ok()) << y.status();
    EXPECT_EQ(y.dims(), (Dims{2, c.out, size}));
    EXPECT_THAT(Out(y), ::testing::Pointwise(::testing::DoubleNear(1e-11), want));
    CheckGradient({{{2, c.in, c.n}, x}, {{c.in, each, c.kernel}, w}, {{c.out}, b}}, f);
  }
  // In two dimensions it is the transpose of Conv.
  const Tensor image = Some({1, 2, 5, 4}, 1), weight = Some({3, 2, 3, 2}, 2);
  const Tensor y = fn::Conv(image, weight, {}, {.stride = {2, 1}, .padding = {1, 0}});
  const Tensor back = Some(y.dims(), 3);
  const auto g = Gradient((y * back).Sum(), std::span(&image, 1));
  ASSERT_TRUE(g.ok());
  const Tensor z = fn::ConvTranspose(back, weight, {}, {.stride = {2, 1}, .padding = {1, 0}});
  EXPECT_EQ(z.dims(), image.dims());
  EXPECT_THAT(Out(z), ::testing::Pointwise(::testing::DoubleNear(1e-11), Out((*g)[0])));
  EXPECT_FALSE(fn::ConvTranspose(back, image).status().ok());
  EXPECT_FALSE(fn::ConvTranspose(back, weight, {}, {.output_padding = {1}}).status().ok());
  CheckSecondGradient({Input({1, 1, 3}, 1), Input({1, 1, 2}, 2)}, [](const std::vector<Tensor>& t) {
    return fn::ConvTranspose(t[0], t[1], {}, {.stride = {2}});
  });
}

TEST_F(ImageTest, PatchesAndShuffles) {
  const Tensor x = Ramp({1, 1, 3, 3});
  EXPECT_THAT(Out(fn::Unfold(x, {2})), ElementsAre(0, 1, 3, 4, 1, 2, 4, 5, 3, 4, 6, 7, 4, 5, 7, 8));
  // The number of patches that cover each element.
  EXPECT_THAT(Out(fn::Fold(fn::Unfold(x * 0.0 + 1.0, {2}), {3, 3}, {2})),
              ElementsAre(1, 2, 1, 2, 4, 2, 1, 2, 1));
  const fn::PatchOptions o{.stride = {2, 1}, .padding = {1, 0}, .dilation = {1, 2}};
  auto unfold = [&](const std::vector<Tensor>& t) { return fn::Unfold(t[0], {2, 2}, o); };
  CheckGradient({Input({1, 2, 3, 4})}, unfold);
  const Tensor y = unfold({Ramp({1, 2, 3, 4})});
  CheckGradient({Input(y.dims())},
                [&](const std::vector<Tensor>& t) { return fn::Fold(t[0], {3, 4}, {2, 2}, o); });
  EXPECT_FALSE(fn::Fold(y, {4, 4}, {2, 2}, o).status().ok());
  EXPECT_FALSE(fn::Fold(In({1, 1, 1}, {1}, Dtype::I32), {1}, {1}).status().ok());
  const Tensor z = Ramp({1, 8, 1, 2}), shuffled = fn::PixelShuffle(z, 2);
  EXPECT_EQ(shuffled.dims(), (Dims{1, 2, 2, 4}));
  EXPECT_THAT(Out(shuffled), ElementsAre(0, 2, 1, 3, 4, 6, 5, 7, 8, 10, 9, 11, 12, 14, 13, 15));
  EXPECT_EQ(Out(fn::PixelUnshuffle(shuffled, 2)), Out(z));
  EXPECT_FALSE(fn::PixelShuffle(z, 3).status().ok());
  EXPECT_FALSE(fn::PixelUnshuffle(z, 2).status().ok());
}

TEST_F(ImageTest, PoolsWithOtherPaddingAtTheEnd) {
  const Tensor x = Some({2, 3, 4, 5}, 3);
  for (const bool ceil : {false, true}) {
    const fn::PoolOptions o{
        .stride = {2}, .padding = {1, 0}, .padding_after = {0, 1}, .ceil_mode = ceil};
    const fn::PoolOptions plain{.stride = {2}, .ceil_mode = ceil};
    const Dims before = {0, 0, 1, 0}, after = {0, 0, 0, 1};
    EXPECT_EQ(Out(fn::MaxPool(x, {2}, o)),
              Out(fn::MaxPool(x.Pad(before, after, -INFINITY), {2}, plain)));
    const Tensor padded = x.Pad(before, after);
    EXPECT_EQ(Out(fn::AvgPool(x, {2}, o)), Out(fn::AvgPool(padded, {2}, plain)));
    fn::PoolOptions only = o;
    only.count_padding = false;
    // The mean of what is inside is the mean of all times the share of what is inside.
    const Tensor inside = fn::AvgPool((x * 0.0 + 1.0).Pad(before, after), {2}, plain);
    ExpectNear(Out(fn::AvgPool(x, {2}, only)), Out(fn::AvgPool(padded, {2}, plain) / inside),
               Dtype::F64, 16, "avg");
    // Positions are those in x.
    const auto [most, index] = fn::MaxPoolWithIndices(x, {2}, o);
    EXPECT_EQ(Out(x.Flatten(2).Gather(2, index.Flatten(2))), Out(most));
  }
  const fn::PoolOptions wrong{.padding_after = {1, 2, 3}};
  EXPECT_FALSE(fn::MaxPool(x, {2}, wrong).status().ok());
}

}  // namespace
}  // namespace uopd::client::image_cases
