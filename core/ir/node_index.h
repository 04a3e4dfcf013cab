// SPDX-License-Identifier: MIT
// Numbers by node id for the time of one walk over a graph, or of a few.
//
// Walks are many and most graphs small beside the context that they are in, so nothing here costs
// more than the nodes that are visited: the table is borrowed from the thread, and what earlier
// walks left in it counts as absent.
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

  // How many ids there is room for, and room for more; what is in it stays.
  size_t ids() const { return ids_; }
  void Grow(size_t ids);

  bool Has(UOp u) const { return at_[u.id()] >= base_; }
  // REQUIRES: Has(u).
  uint32_t operator[](UOp u) const { return at_[u.id()] - base_; }
  // kNone where there is no number.
  uint32_t Get(UOp u) const {
    const uint32_t at = at_[u.id()];
    return at >= base_ ? at - base_ : kNone;
  }
  void Set(UOp u, uint32_t number) {
    UOPD_ASSERT(u.id() < ids_ && number <= ids_);
    at_[u.id()] = base_ + number;
    if (number >= used_) used_ = number + 1;
  }
  // False if u has a number already, which stays.
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
  uint32_t base_;      // what is smaller was left by others
  uint32_t used_ = 1;  // numbers below this are in use
};

}  // namespace uopd::ir
