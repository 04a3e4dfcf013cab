// SPDX-License-Identifier: MIT
#include "core/search/cost_model.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "core/base/bytes.h"

namespace uopd::search {
namespace {

constexpr double kRidge =
    20;  // observations that the first guess is worth, of a feature that differs by 1
constexpr double kMostLog = 3;  // what is slower than that tells nothing about what is fast

// The time that codegen estimates, and that registers in memory cost.
double FirstGuess(size_t feature) {
  if (feature == static_cast<size_t>(Feature::kEstimate)) return 1;
  if (feature == static_cast<size_t>(Feature::kSpilled)) return 0.5;
  return 0;
}

}  // namespace

CostModel::CostModel() : products_(kSize * kSize) {}

void CostModel::Observe(const Features& start, const Features& candidate, double log_ratio) {
  if (!std::isfinite(log_ratio)) return;
  log_ratio = std::clamp(log_ratio, -kMostLog, kMostLog);
  if (observations_ >= kMost) {
    constexpr double kFade = 0.5;
    observations_ *= kFade;
    for (double& p : products_) p *= kFade;
    for (double& s : sums_) s *= kFade;
  }
  observations_ += 1;
  for (size_t i = 0; i < kSize; ++i) {
    const double x = static_cast<double>(candidate[i]) - start[i];
    sums_[i] += x * log_ratio;
    for (size_t j = 0; j < kSize; ++j)
      products_[i * kSize + j] += x * (static_cast<double>(candidate[j]) - start[j]);
  }
  fitted_ = false;
}

// Solves (products + ridge) weights = sums + ridge * first guess by Cholesky's method.
void CostModel::Fit() const {
  std::vector<double> factor(kSize * kSize);
  for (size_t i = 0; i < kSize; ++i) {
    for (size_t j = 0; j <= i; ++j) {
      double sum = products_[i * kSize + j] + (i == j ? kRidge : 0);
      for (size_t k = 0; k < j; ++k) sum -= factor[i * kSize + k] * factor[j * kSize + k];
      factor[i * kSize + j] = i == j ? std::sqrt(std::max(sum, 1e-6)) : sum / factor[j * kSize + j];
    }
  }
  for (size_t i = 0; i < kSize; ++i) {
    double sum = sums_[i] + kRidge * FirstGuess(i);
    for (size_t k = 0; k < i; ++k) sum -= factor[i * kSize + k] * weights_[k];
    weights_[i] = sum / factor[i * kSize + i];
  }
  for (size_t i = kSize; i-- > 0;) {
    double sum = weights_[i];
    for (size_t k = i + 1; k < kSize; ++k) sum -= factor[k * kSize + i] * weights_[k];
    weights_[i] = sum / factor[i * kSize + i];
  }
  fitted_ = true;
}

double CostModel::Predict(std::span<const float> features) const {
  if (!fitted_) Fit();
  double out = 0;
  for (size_t i = 0; i < kSize; ++i) out += weights_[i] * features[i];
  return out;
}

std::string CostModel::Encode() const {
  std::string out;
  PutVarint(out, kFeaturesVersion);
  PutVarint(out, kSize);
  const auto put = [&](double v) { PutVarint(out, std::bit_cast<uint64_t>(v)); };
  put(observations_);
  for (const double p : products_) put(p);
  for (const double s : sums_) put(s);
  return out;
}

absl::StatusOr<CostModel> CostModel::Decode(std::string_view bytes) {
  absl::Status malformed = absl::DataLossError("malformed cost model");
  ByteReader reader(bytes);
  uint64_t version, size;
  if (!reader.Varint(version) || !reader.Varint(size) || version != kFeaturesVersion ||
      size != kSize)
    return malformed;
  CostModel out;
  bool good = true;
  const auto read = [&](double& v) {
    uint64_t bits;
    good = good && reader.Varint(bits);
    v = good ? std::bit_cast<double>(bits) : 0;
    good = good && std::isfinite(v);
  };
  read(out.observations_);
  for (double& p : out.products_) read(p);
  for (double& s : out.sums_) read(s);
  if (!good || !reader.done() || out.observations_ < 0) return malformed;
  return out;
}

}  // namespace uopd::search
