// SPDX-License-Identifier: MIT
// Memoised bounds by node id. Nearly all fit into two 64-bit numbers; the others are in a table of
// their own.
#pragma once
#include <limits>
#include <vector>

#include "core/ir/analysis/bounds.h"
#include "core/ir/tables/side_table.h"

namespace uopd::ir {

class BoundsTable {
 public:
  bool Has(uint32_t id) const { return at_.Get(id) != 0; }
  // REQUIRES: Has(id).
  Bounds Get(uint32_t id) const {
    const Narrow& b = narrow_[at_.Get(id) - 1];
    if (b.min <= b.max) return {b.min, b.max};
    return wide_[static_cast<size_t>(b.max)];
  }
  // REQUIRES: bounds.known().
  void Set(uint32_t id, Bounds bounds) {
    const auto min = static_cast<int64_t>(bounds.min), max = static_cast<int64_t>(bounds.max);
    if (min == bounds.min && max == bounds.max) {
      narrow_.push_back({min, max});
    } else {
      narrow_.push_back({kWide, static_cast<int64_t>(wide_.size())});
      wide_.push_back(bounds);
    }
    at_.Set(id, static_cast<uint32_t>(narrow_.size()));
  }
  size_t bytes_reserved() const {
    return at_.bytes_reserved() + narrow_.capacity() * sizeof(Narrow) +
           wide_.capacity() * sizeof(Bounds);
  }

 private:
  // min <= max: an interval. min > max: no interval; max is an index into wide_.
  struct Narrow {
    int64_t min, max;
  };
  static constexpr int64_t kWide = std::numeric_limits<int64_t>::max();

  SideTable<uint32_t> at_;  // index into narrow_ plus 1
  std::vector<Narrow> narrow_;
  std::vector<Bounds> wide_;
};

}  // namespace uopd::ir
