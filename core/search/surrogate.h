// SPDX-License-Identifier: MIT
// Surrogate: what the search expects of a candidate that it has not measured.
//
// A Gaussian process over the features of candidates (C. E. Rasmussen and C. Williams, Gaussian
// Processes for Machine Learning, 2006, chapter 2) whose values are log2 of times. Its covariance
// is a linear function of the features, which goes on beyond what was measured, plus one that
// depends on the distance, which follows what was. Before the first observation the mean is that of
// the prior: a linear function, which the cost model (cost_model.h) learned from other kernels, or
// 0.
//
// A time counts as at most kSlowest times the best one: what is that slow tells nothing about what
// is fast. Of more than kMost observations the slowest ones are forgotten. Deterministic. Used by
// one thread. n observations cost n^3 / 6 multiplications at the next prediction.
#pragma once
#include <algorithm>
#include <functional>
#include <span>
#include <vector>

namespace uopd::search {

class Surrogate {
 public:
  static constexpr size_t kMost = 128;
  static constexpr double kSlowest = 3;  // log2

  struct Prediction {
    double mean = 0;       // of log2(time)
    double deviation = 0;  // standard deviation
  };

  // `prior` maps features to the expected log2(time), up to a constant. Null: 0.
  explicit Surrogate(std::function<double(std::span<const float>)> prior = nullptr)
      : prior_(std::move(prior)) {}

  // All features have one length.
  void Observe(std::vector<float> features, double log_time);
  Prediction Predict(std::span<const float> features);

 private:
  // Features minus those of the first point, in a row of whole groups of kLanes, and the square of
  // their length. A view.
  struct Row {
    const float* values = nullptr;
    float square = 0;
  };
  static constexpr size_t kLanes = 8;
  // Writes width_ numbers to `to`.
  Row Centre(std::span<const float> x, float* to) const;
  Row PointAt(size_t i) const { return {&flat_[i * width_], squares_[i]}; }
  static float Distance2(const Row& a, const Row& b, float product) {
    return std::max(0.0F, a.square + b.square - 2 * product);
  }
  double Covariance(const Row& a, const Row& b) const;
  double Prior(std::span<const float> x) const { return prior_ ? prior_(x) : 0; }
  void Fit();
  double FitTrust() const;

  const std::function<double(std::span<const float>)> prior_;
  std::vector<std::vector<float>> points_;
  std::vector<double> times_;
  std::vector<double> values_;  // what the prior leaves of the times
  bool fitted_ = false;
  size_t width_ = 0;                   // of a row
  std::vector<float> flat_, squares_;  // the rows of all points
  double trust_ = 1, mean_ = 0, scale_ = 1, length_ = 1;
  std::vector<double> factor_;   // Cholesky factor of the covariances, lower triangle by rows
  std::vector<double> weights_;  // covariances^-1 (values - mean)
};

}  // namespace uopd::search
