// SPDX-License-Identifier: MIT
// Facts about index expressions, memoised by node: the set of ranges that an expression depends on,
// with one bit per axis id, and its height. Used by accesses (access.h) and staging.
#pragma once
#include <algorithm>
#include <vector>

#include "core/ir/uop.h"

namespace uopd::schedule {

class UsedRanges {
 public:
  // The bit of a range. Axis ids from 62 on share one bit, so the sets may be too large, never too
  // small.
  static uint64_t Bit(ir::UOp range) {
    return uint64_t{1} << std::min<int64_t>(range.axis_id(), 62);
  }

  // The bits of the ranges that the expression depends on.
  uint64_t In(ir::UOp expression) {
    stack_.assign(1, expression);
    while (!stack_.empty()) {
      const ir::UOp u = stack_.back();
      if (Known(u) != 0) {
        stack_.pop_back();
        continue;
      }
      uint64_t bits = u.Is(ir::Op::RANGE) ? Bit(u) : 0;
      uint16_t height = 0;
      bool ready = true;
      for (ir::UOp s : u.srcs()) {
        const uint64_t known = Known(s);
        if (known == 0) {
          stack_.push_back(s);
          ready = false;
        }
        bits |= known;
        if (known != 0) height = std::max(height, height_[s.id()]);
      }
      if (!ready) continue;
      if (u.id() >= known_.size()) {
        known_.resize(2 * u.id() + 64);
        height_.resize(known_.size());
      }
      known_[u.id()] = bits | kKnown;
      height_[u.id()] = height + (height < UINT16_MAX ? 1 : 0);
      stack_.pop_back();
    }
    return Known(expression) & ~kKnown;
  }
  // The number of nodes on the longest path down from the expression. REQUIRES: In(expression) was
  // called before.
  uint16_t HeightOf(ir::UOp expression) const { return height_[expression.id()]; }

 private:
  static constexpr uint64_t kKnown = uint64_t{1} << 63;
  uint64_t Known(ir::UOp u) const { return u.id() < known_.size() ? known_[u.id()] : 0; }

  std::vector<uint64_t> known_;   // by id: the bits, and kKnown; 0: not computed yet
  std::vector<uint16_t> height_;  // by id
  std::vector<ir::UOp> stack_;
};

}  // namespace uopd::schedule
