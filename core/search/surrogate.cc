// SPDX-License-Identifier: MIT
#include "core/search/surrogate.h"

#include <algorithm>
#include <cmath>
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

double Distance2(std::span<const float> a, std::span<const float> b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    const double d = static_cast<double>(a[i]) - b[i];
    sum += d * d;
  }
  return sum;
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

// The linear part is measured from the first point, so that it is the same wherever the features lie.
double Surrogate::Covariance(std::span<const float> a, std::span<const float> b) const {
  double product = 0;
  for (size_t i = 0; i < a.size(); ++i)
    product += (static_cast<double>(a[i]) - points_[0][i]) * (b[i] - points_[0][i]);
  const double near = std::exp(-Distance2(a, b) / (2 * length_ * length_));
  return scale_ * scale_ * (near + kLinear * product / (length_ * length_));
}

// The slope of the times over the prior, by least squares; 1 before there are observations that say otherwise.
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
  // The usual distance of two points is the length over which values are alike.
  std::vector<double> distances;
  for (size_t i = 0; i < n; ++i) {
    for (size_t j = 0; j < i; ++j) distances.push_back(Distance2(points_[i], points_[j]));
  }
  length_ = 1;
  if (!distances.empty()) {
    auto middle = distances.begin() + static_cast<std::ptrdiff_t>(distances.size() / 2);
    std::ranges::nth_element(distances, middle);
    length_ = std::max(0.5, std::sqrt(*middle));
  }
  factor_.assign(n * n, 0);
  for (size_t i = 0; i < n; ++i) {
    for (size_t j = 0; j <= i; ++j) {
      double sum = Covariance(points_[i], points_[j]);
      if (i == j) sum += kNoise * scale_ * scale_;
      for (size_t k = 0; k < j; ++k) sum -= factor_[i * n + k] * factor_[j * n + k];
      factor_[i * n + j] =
          i == j ? std::sqrt(std::max(sum, 1e-9 * scale_ * scale_)) : sum / factor_[j * n + j];
    }
  }
  weights_.assign(n, 0);
  for (size_t i = 0; i < n; ++i) {
    double sum = values_[i] - mean_;
    for (size_t k = 0; k < i; ++k) sum -= factor_[i * n + k] * weights_[k];
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
  double mean = mean_ + trust_ * Prior(features);
  for (size_t i = 0; i < n; ++i) {
    near[i] = Covariance(features, points_[i]);
    mean += near[i] * weights_[i];
  }
  double variance = Covariance(features, features);
  for (size_t i = 0; i < n; ++i) {
    for (size_t k = 0; k < i; ++k) near[i] -= factor_[i * n + k] * near[k];
    near[i] /= factor_[i * n + i];
    variance -= near[i] * near[i];
  }
  return {mean, std::sqrt(std::max(variance, 0.0))};
}

}  // namespace uopd::search
