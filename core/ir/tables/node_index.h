// SPDX-License-Identifier: MIT
// A map from nodes to numbers, for one walk over a graph or a few.
//
// Most graphs are small compared with the context that contains them, so the cost of a map depends
// on the visited nodes only. The table belongs to the thread and is not cleared: entries below
// base_ were left by earlier maps and count as absent.
#pragma once
#include <cstdint>

#include "core/base/status.h"
#include "core/ir/uop.h"

namespace uopd::ir {

class NodeIndex {
 public:
  static constexpr uint32_t kNone = UINT32_MAX;

  // For nodes with ids in [0, ids) and numbers in [0, ids].
  explicit NodeIndex(size_t ids);
  ~NodeIndex();
  NodeIndex(const NodeIndex&) = delete;
  NodeIndex& operator=(const NodeIndex&) = delete;

  size_t ids() const { return ids_; }
  // Makes room for more ids; keeps the numbers.
  void Grow(size_t ids);

  bool Has(UOp u) const { return at_[u.id()] >= base_; }
  // REQUIRES: Has(u).
  uint32_t operator[](UOp u) const { return at_[u.id()] - base_; }
  // kNone if u has no number.
  uint32_t Get(UOp u) const {
    const uint32_t at = at_[u.id()];
    return at >= base_ ? at - base_ : kNone;
  }
  void Set(UOp u, uint32_t number) {
    UOPD_ASSERT(u.id() < ids_ && number <= ids_);
    at_[u.id()] = base_ + number;
    if (number >= used_) used_ = number + 1;
  }
  // False, without a change, if u has a number already.
  bool Insert(UOp u, uint32_t number = 0) {
    if (Has(u)) return false;
    Set(u, number);
    return true;
  }

 private:
  struct Table;
  Table* table_;
  uint32_t* at_;
  size_t ids_;
  uint32_t base_;      // smaller entries were left by earlier maps
  uint32_t used_ = 1;  // numbers below this are in use
};

}  // namespace uopd::ir
