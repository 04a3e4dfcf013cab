// SPDX-License-Identifier: MIT
// Histogram: counts of times in microseconds. A quantile is right to 1/16, as each power of two has
// 16 steps.
#pragma once
#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>

namespace uopd::sim {

class Histogram {
 public:
  void Add(int64_t us) {
    const auto value = static_cast<uint64_t>(std::max<int64_t>(us, 0));
    ++counts_[Bucket(value)];
    ++total_;
    greatest_ = std::max<int64_t>(greatest_, us);
  }
  int64_t total() const { return total_; }
  int64_t greatest() const { return greatest_; }
  // The least value of the step in which the quantile lies; 0 without values.
  int64_t Quantile(double q) const {
    const auto wanted = static_cast<int64_t>(q * static_cast<double>(total_));
    int64_t seen = 0;
    for (size_t i = 0; i < counts_.size(); ++i) {
      seen += counts_[i];
      if (seen > wanted) return Least(i);
    }
    return greatest_;
  }

 private:
  static size_t Bucket(uint64_t value) {
    if (value < 16) return value;
    const int shift = std::bit_width(value) - 5;
    return static_cast<size_t>(shift) * 16 + (value >> shift);
  }
  static int64_t Least(size_t bucket) {
    if (bucket < 32) return static_cast<int64_t>(bucket);
    const size_t shift = bucket / 16 - 1;
    return static_cast<int64_t>((bucket % 16 + 16) << shift);
  }
  std::array<int64_t, 976> counts_{};  // Bucket of the greatest uint64_t is 975
  int64_t total_ = 0, greatest_ = 0;
};

}  // namespace uopd::sim
