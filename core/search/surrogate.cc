// SPDX-License-Identifier: MIT
#include "core/search/surrogate.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <numeric>

#include "core/base/status.h"

namespace uopd::search {
namespace {

// Shares of the variance: of the linear part, and of the noise of one measurement.
constexpr double kLinear = 0.5, kNoise = 0.01;
constexpr double kLeastScale = 0.05;  // of log2(time): two candidates are never quite alike

constexpr double kTrust =
    4;  // in the prior: as if so much of log2(time) squared had agreed with it

double MeanOf(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

// Several sums at a time: one alone would wait for each addition.
double Dot(const double* a, const double* b, size_t n) {
  std::array<double, 4> sums{};
  size_t i = 0;
  for (; i + sums.size() <= n; i += sums.size()) {
    for (size_t lane = 0; lane < sums.size(); ++lane) sums[lane] += a[i + lane] * b[i + lane];
  }
  for (; i < n; ++i) sums[0] += a[i] * b[i];
  return (sums[0] + sums[1]) + (sums[2] + sums[3]);
}

template <size_t kLanes>
float DotOfRows(const float* a, const float* b, size_t width) {
  std::array<float, kLanes> sums{};
  for (size_t i = 0; i < width; i += kLanes) {
    for (size_t lane = 0; lane < kLanes; ++lane) sums[lane] += a[i + lane] * b[i + lane];
  }
  return std::accumulate(sums.begin(), sums.end(), 0.0F);
}

}  // namespace

void Surrogate::Observe(std::vector<float> features, double log_time) {
  fitted_ = false;
  if (points_.size() < kMost) {
    points_.push_back(std::move(features));
    times_.push_back(log_time);
    return;
  }
  const auto slowest = std::ranges::max_element(times_);
  if (log_time >= *slowest) return;
  points_[static_cast<size_t>(slowest - times_.begin())] = std::move(features);
  *slowest = log_time;
}

Surrogate::Row Surrogate::Centre(std::span<const float> x, float* to) const {
  std::ranges::transform(x, points_[0], to, std::minus<>());
  std::fill(to + x.size(), to + width_, 0.0F);
  return {to, DotOfRows<kLanes>(to, to, width_)};
}

// The linear part is measured from the first point, so that it is the same wherever the features
// lie.
double Surrogate::Covariance(const Row& a, const Row& b) const {
  const float product = DotOfRows<kLanes>(a.values, b.values, width_);
  const double near = std::exp(-double{Distance2(a, b, product)} / (2 * length_ * length_));
  return scale_ * scale_ * (near + kLinear * product / (length_ * length_));
}

// The slope of the times over the prior, by least squares; 1 before there are observations that say
// otherwise.
double Surrogate::FitTrust() const {
  std::vector<double> expected;
  for (const auto& point : points_) expected.push_back(Prior(point));
  const double mean = MeanOf(values_), mean_expected = MeanOf(expected);
  double both = kTrust, own = kTrust;
  for (size_t i = 0; i < expected.size(); ++i) {
    both += (values_[i] - mean) * (expected[i] - mean_expected);
    own += (expected[i] - mean_expected) * (expected[i] - mean_expected);
  }
  return std::clamp(both / own, 0.0, 2.0);
}

void Surrogate::Fit() {
  const size_t n = points_.size();
  const double most = std::ranges::min(times_) + kSlowest;
  values_.clear();
  for (const double t : times_) values_.push_back(std::min(t, most));
  trust_ = FitTrust();
  for (size_t i = 0; i < n; ++i) values_[i] -= trust_ * Prior(points_[i]);
  mean_ = MeanOf(values_);
  double variance = 0;
  for (const double v : values_) variance += (v - mean_) * (v - mean_);
  scale_ = std::max(kLeastScale, std::sqrt(variance / static_cast<double>(n)));
  width_ = (points_[0].size() + kLanes - 1) / kLanes * kLanes;
  flat_.resize(n * width_);
  squares_.resize(n);
  for (size_t i = 0; i < n; ++i) squares_[i] = Centre(points_[i], &flat_[i * width_]).square;
  // Half of the usual distance of two points is the length over which values are alike.
  std::vector<double> distances;
  for (size_t i = 0; i < n; ++i) {
    for (size_t j = 0; j < i; ++j) {
      const Row a = PointAt(i), b = PointAt(j);
      distances.push_back(Distance2(a, b, DotOfRows<kLanes>(a.values, b.values, width_)));
    }
  }
  length_ = 1;
  if (!distances.empty()) {
    auto middle = distances.begin() + static_cast<std::ptrdiff_t>(distances.size() / 2);
    std::ranges::nth_element(distances, middle);
    length_ = std::max(0.5, 0.5 * std::sqrt(*middle));
  }
  factor_.assign(n * n, 0);
  for (size_t i = 0; i < n; ++i) {
    for (size_t j = 0; j <= i; ++j) {
      double sum = Covariance(PointAt(i), PointAt(j));
      if (i == j) sum += kNoise * scale_ * scale_;
      sum -= Dot(&factor_[i * n], &factor_[j * n], j);
      factor_[i * n + j] =
          i == j ? std::sqrt(std::max(sum, 1e-9 * scale_ * scale_)) : sum / factor_[j * n + j];
    }
  }
  weights_.assign(n, 0);
  for (size_t i = 0; i < n; ++i) {
    const double sum = values_[i] - mean_ - Dot(&factor_[i * n], weights_.data(), i);
    weights_[i] = sum / factor_[i * n + i];
  }
  for (size_t i = n; i-- > 0;) {
    double sum = weights_[i];
    for (size_t k = i + 1; k < n; ++k) sum -= factor_[k * n + i] * weights_[k];
    weights_[i] = sum / factor_[i * n + i];
  }
  fitted_ = true;
}

Surrogate::Prediction Surrogate::Predict(std::span<const float> features) {
  if (points_.empty()) return {Prior(features), 1};
  if (!fitted_) Fit();
  const size_t n = points_.size();
  std::vector<double> near(n);
  std::vector<float> centred(width_);
  const Row asked = Centre(features, centred.data());
  double mean = mean_ + trust_ * Prior(features);
  for (size_t i = 0; i < n; ++i) {
    near[i] = Covariance(asked, PointAt(i));
    mean += near[i] * weights_[i];
  }
  double variance = Covariance(asked, asked);
  for (size_t i = 0; i < n; ++i) {
    near[i] = (near[i] - Dot(&factor_[i * n], near.data(), i)) / factor_[i * n + i];
    variance -= near[i] * near[i];
  }
  return {mean, std::sqrt(std::max(variance, 0.0))};
}

}  // namespace uopd::search
