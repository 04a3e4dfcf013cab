// SPDX-License-Identifier: MIT
// Index and bool arithmetic as a list of nodes, which later work looks up by place.
#pragma once
#include <array>
#include <span>

#include "absl/container/inlined_vector.h"
#include "core/ir/uop.h"

namespace uopd::rules {

inline bool IsIndexOrBool(ir::UOp u) {
  return u.dtype() == ir::Dtype::Index || u.dtype() == ir::Dtype::Bool;
}
// An op on index and bool values that gives one.
inline bool IsMath(ir::UOp u) {
  if (!u.Is(ir::kElementwiseOps) || !IsIndexOrBool(u) || u.Is(ir::Op::CAST)) return false;
  for (ir::UOp s : u.srcs()) {
    if (!IsIndexOrBool(s)) return false;
  }
  return true;
}
// An index that is a sum of its sources, with signs and constant factors.
inline bool IsLinear(ir::UOp u) {
  using ir::Op;
  if (u.dtype() != ir::Dtype::Index) return false;
  return u.Is(ir::OpSet{Op::NEG, Op::ADD, Op::SUB}) ||
         (u.Is(Op::MUL) && (u.src(0).Is(Op::CONST) || u.src(1).Is(Op::CONST)));
}

// An expression down to what is no index or bool arithmetic: its nodes, sources first.
class MathGraph {
 public:
  static constexpr size_t kMaxNodes = 200;

  explicit MathGraph(ir::UOp root) { Walk(root); }

  bool complete() const { return complete_; }  // false: there are too many nodes
  std::span<const ir::UOp> nodes() const { return nodes_; }
  ir::UOp root() const { return nodes_.back(); }
  static constexpr size_t kNowhere = UINT16_MAX;
  size_t IndexOf(ir::UOp u) const {  // in nodes(), or kNowhere
    const uint16_t slot = slots_[SlotOf(u)];
    return slot == 0 ? kNowhere : seen_[slot - 1].index;
  }
  // The places of the sources of nodes()[i]; none of a node that is no arithmetic.
  std::span<const uint16_t> Sources(size_t i) const {
    return {sources_[i].at.data(), sources_[i].n};
  }

  // What of the expression costs. Sums, signs, constant factors and negations count nothing: how
  // many of them are nodes depends on the order of operands, which is another one in another
  // context. INT64_MAX if there are too many nodes.
  int64_t Weight() const;

 private:
  struct Seen {
    ir::UOp node;
    uint16_t index;  // in nodes_; kOpen while its sources are being visited
  };
  static constexpr uint16_t kOpen = UINT16_MAX;
  struct Places {
    std::array<uint16_t, 3> at;
    uint16_t n = 0;
  };

  void Walk(ir::UOp root);
  // Its slot, or the free one where it belongs.
  size_t SlotOf(ir::UOp u) const {
    size_t i = u.id() * 0x9E3779B1u >> (32 - kLogSlots);
    while (slots_[i] != 0 && seen_[slots_[i] - 1].node != u) i = (i + 1) % kSlots;
    return i;
  }

  static constexpr int kLogSlots = 10;
  static constexpr size_t kSlots = size_t{1} << kLogSlots;
  static_assert(kSlots > 5 * kMaxNodes, "each of them and up to three sources are remembered");
  std::array<uint16_t, kSlots> slots_{};  // by hash of the id: place in seen_, from 1; 0: free
  absl::InlinedVector<Seen, 32> seen_;
  absl::InlinedVector<ir::UOp, 32> nodes_;
  absl::InlinedVector<Places, 32> sources_;  // by place in nodes_
  bool complete_ = true;
};

}  // namespace uopd::rules
