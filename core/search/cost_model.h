// SPDX-License-Identifier: MIT
// CostModel: how times depend on the features of programs, learned from all kernels that a device
// has tuned.
//
// A linear function from differences of features to differences of log2(time), between a candidate
// and the start of its search: so kernels of any size teach the same. It is fitted by least squares
// with a ridge around a first guess (A. Hoerl and R. Kennard, Ridge Regression, 1970), and keeps
// only sums, so its size does not grow. Old observations fade when there are more than kMost.
// Copies may be used in several threads; one object by one thread.
#pragma once
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/status.h"
#include "core/search/features.h"

namespace uopd::search {

class CostModel {
 public:
  static constexpr double kMost = 20'000;

  CostModel();

  // A candidate took 2^log_ratio times as long as `start`, which was measured in the same search.
  void Observe(const Features& start, const Features& candidate, double log_ratio);
  // log2(time), up to a constant. Reads the first of the numbers: a Features, and whatever follows.
  double Predict(std::span<const float> features) const;
  double observations() const { return observations_; }

  std::string Encode() const;
  // DATA_LOSS: the bytes are no model, or one of other features.
  static absl::StatusOr<CostModel> Decode(std::string_view bytes);

 private:
  static constexpr size_t kSize = static_cast<size_t>(Feature::kCount);

  void Fit() const;

  double observations_ = 0;
  std::vector<double> products_;  // kSize x kSize: sums of products of two differences of features
  std::array<double, kSize> sums_{};  // of products with the differences of log2(time)
  mutable std::array<double, kSize> weights_{};
  mutable bool fitted_ = false;
};

}  // namespace uopd::search
