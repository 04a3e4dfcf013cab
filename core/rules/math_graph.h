// SPDX-License-Identifier: MIT
// MathGraph: the index and bool arithmetic of one expression as a list of nodes, sources first.
//
// Built once per SimplifyGiven (given.h) and read by foresight and by every trial: they address
// nodes by position. Does not allocate for small expressions.
#pragma once
#include <array>
#include <span>

#include "absl/container/inlined_vector.h"
#include "core/ir/uop.h"

namespace uopd::rules {

inline bool IsIndexOrBool(ir::UOp u) {
  return u.dtype() == ir::Dtype::Index || u.dtype() == ir::Dtype::Bool;
}
// An elementwise op, except CAST, whose result and sources all have dtype index or bool.
inline bool IsMath(ir::UOp u) {
  if (!u.Is(ir::kElementwiseOps) || !IsIndexOrBool(u) || u.Is(ir::Op::CAST)) return false;
  for (ir::UOp s : u.srcs()) {
    if (!IsIndexOrBool(s)) return false;
  }
  return true;
}
// An index op that is linear in its sources: NEG, ADD, SUB, MUL by a constant.
inline bool IsLinear(ir::UOp u) {
  using ir::Op;
  if (u.dtype() != ir::Dtype::Index) return false;
  return u.Is(ir::OpSet{Op::NEG, Op::ADD, Op::SUB}) ||
         (u.Is(Op::MUL) && (u.src(0).Is(Op::CONST) || u.src(1).Is(Op::CONST)));
}

// The nodes of an expression, down to and including the first nodes that are not IsMath (leaves).
// Sources first; the root is last.
class MathGraph {
 public:
  static constexpr size_t kMaxNodes = 200;

  explicit MathGraph(ir::UOp root) { Walk(root); }

  bool complete() const { return complete_; }  // false: there are more than kMaxNodes nodes
  std::span<const ir::UOp> nodes() const { return nodes_; }
  ir::UOp root() const { return nodes_.back(); }
  static constexpr size_t kNowhere = UINT16_MAX;
  size_t IndexOf(ir::UOp u) const {  // in nodes(), or kNowhere
    const uint16_t slot = slots_[SlotOf(u)];
    return slot == 0 ? kNowhere : seen_[slot - 1].index;
  }
  // The positions of the sources of nodes()[i]; empty for a leaf.
  std::span<const uint16_t> Sources(size_t i) const {
    return {sources_[i].at.data(), sources_[i].n};
  }

  // The cost of the expression: divisions and remainders count 5, other nodes 1. Constants, linear
  // ops and negations count 0: their number depends on the order of operands, which differs between
  // contexts. INT64_MAX if !complete().
  int64_t Weight() const;

 private:
  struct Seen {
    ir::UOp node;
    uint16_t index;  // position in nodes_; kOpen while the sources of the node are visited
  };
  static constexpr uint16_t kOpen = UINT16_MAX;
  struct Places {
    std::array<uint16_t, 3> at;
    uint16_t n = 0;
  };

  void Walk(ir::UOp root);
  // The slot of u, or the free slot where u belongs (linear probing).
  size_t SlotOf(ir::UOp u) const {
    size_t i = u.id() * 0x9E3779B1u >> (32 - kLogSlots);
    while (slots_[i] != 0 && seen_[slots_[i] - 1].node != u) i = (i + 1) % kSlots;
    return i;
  }

  static constexpr int kLogSlots = 10;
  static constexpr size_t kSlots = size_t{1} << kLogSlots;
  static_assert(kSlots > 5 * kMaxNodes, "each of them and up to three sources are remembered");
  std::array<uint16_t, kSlots> slots_{};  // hash table: position in seen_ plus 1; 0: free
  absl::InlinedVector<Seen, 32> seen_;
  absl::InlinedVector<ir::UOp, 32> nodes_;
  absl::InlinedVector<Places, 32> sources_;  // by position in nodes_
  bool complete_ = true;
};

}  // namespace uopd::rules
