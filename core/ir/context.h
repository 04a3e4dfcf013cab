// SPDX-License-Identifier: MIT
// UOpContext: arena, interning table and memoised facts of UOps.
//
// A context owns every node made through it and frees them together. It is used by one thread at a
// time and takes no lock. An overlay is a context over a frozen base: it sees the base's nodes and
// owns only what it adds; the base must outlive it and must not grow while overlays exist, so any
// number of threads may have one each.
//
// Interrupts: loops that may run long poll Interrupted() and stop at a point where their data are
// consistent. The caller of several passes returns CheckInterrupt() after each.
//
// Facts (shape, bounds) are memoised per context in tables indexed by id, not in nodes. Shapes are
// interned too: equal shapes of one context are the same pointer.
#pragma once
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "core/base/arena.h"
#include "core/base/interrupt.h"
#include "core/base/status.h"
#include "core/ir/analysis/bounds.h"
#include "core/ir/tables/bounds_table.h"
#include "core/ir/tables/shape_table.h"
#include "core/ir/tables/side_table.h"
#include "core/ir/uop.h"

namespace uopd::ir {

class UOpContext {
 public:
  UOpContext();
  explicit UOpContext(const UOpContext* base);  // an overlay
  UOpContext(const UOpContext&) = delete;
  UOpContext& operator=(const UOpContext&) = delete;

  // The one node with these parts. Does not verify: see Verify in spec.h. REQUIRES: arg is interned
  // here (or in the base).
  UOp Make(Op op, Dtype dtype, std::span<const UOp> src, Arg arg = {}, int64_t tag = 0);
  UOp Make(Op op, Dtype dtype, std::initializer_list<UOp> src, Arg arg = {}, int64_t tag = 0) {
    return Make(op, dtype, std::span<const UOp>(src.begin(), src.size()), arg, tag);
  }
  // The node u with other sources; u itself if they are the same.
  UOp WithSources(UOp u, std::span<const UOp> src);

  Arg Data(std::span<const int64_t> ints, std::string_view text = {});
  Arg Data(std::initializer_list<int64_t> ints, std::string_view text = {}) {
    return Data(std::span<const int64_t>(ints.begin(), ints.size()), text);
  }

  // Scalar constants, rounded or wrapped to the dtype.
  UOp Int(Dtype dtype, Int128 v);
  UOp Float(Dtype dtype, double v);
  UOp Const(Dtype dtype, double v) {
    return IsFloat(dtype) ? Float(dtype, v) : Int(dtype, WholeNumber(dtype, v));
  }
  UOp Idx(int64_t v) { return Make(Op::CONST, Dtype::Index, std::span<const UOp>{}, Arg::Int(v)); }
  UOp Bool(bool v) { return Int(Dtype::Bool, v); }

  // True if every RANGE has a bit of Node::ranges of its own, so that MayReach is exact.
  bool ranges_have_bits() const { return n_ranges_ <= 32; }

  // Nodes visible here; ids are [0, size()).
  size_t size() const { return base_size_ + nodes_.size(); }
  UOp node(uint32_t id) const {
    return UOp(id < base_size_ ? base_->node(id).node() : nodes_[id - base_size_]);
  }

  // Shape of a value, or null for statements and other nodes without one. REQUIRES: the graph under
  // u passed Verify.
  const Shape* ShapeOf(UOp u);
  // As ShapeOf, for a node that has not been verified but whose sources have shapes.
  absl::StatusOr<const Shape*> TryShapeOf(UOp u);
  // Interval of an integer, index or bool scalar; the dtype's range when nothing better is known.
  Bounds BoundsOf(UOp u);

  // Null: nothing interrupts the work. The interrupt must outlive its use here. An overlay does not
  // inherit that of its base, which may belong to another thread.
  void set_interrupt(Interrupt* maybe_interrupt) { interrupt_ = maybe_interrupt; }
  Interrupt* maybe_interrupt() const { return interrupt_; }
  // Polls, see Interrupt::Poll.
  bool Interrupted(int32_t steps = 1) const {
    return interrupt_ != nullptr && interrupt_->Poll(steps);
  }
  // Checks without delay. CANCELLED or DEADLINE_EXCEEDED: the results of the passes are incomplete.
  absl::Status CheckInterrupt() const {
    return interrupt_ == nullptr ? absl::OkStatus() : interrupt_->Check();
  }

  // The value that u is a view of: `from` is the first node below u that is no movement op and no
  // AFTER, or u itself. Memoised: amortised constant time.
  struct Way {
    UOp from;
    bool repeats;  // EXPAND or PAD is on the way: elements of u may repeat or be padding
  };
  Way WayOf(UOp u);

  size_t bytes_reserved() const;

 private:
  explicit UOpContext(uint64_t key);
  const Node* Find(uint32_t hash, Op op, Dtype dtype, std::span<const UOp> src, Arg arg,
                   int64_t tag) const;
  const ArgData* FindData(uint32_t hash, std::span<const int64_t> ints,
                          std::string_view text) const;
  void Grow();
  bool KnowsBounds(UOp u) const;
  // SPEC=2: if VerifyNode refuses u, aborts with the node and its origin (origin.h).
  void CheckNew(UOp u);

  // An entry of the interning table. The hash is here so that few lookups have to read the node.
  static constexpr uint32_t kNoNode = UINT32_MAX;
  struct Entry {
    uint32_t hash = 0;
    uint32_t node = kNoNode;  // index into nodes_
  };
  void Insert(Entry entry);

  friend class UncheckedNodes;
  friend Bounds DimensionBounds(UOpContext& ctx, UOp dim);
  const UOpContext* base_ = nullptr;
  uint32_t base_size_ = 0;
  uint32_t n_ranges_ = 0;  // RANGEs visible here
  Arena arena_;
  std::vector<const Node*> nodes_;  // by id - base_size_
  std::vector<Entry> table_;        // open addressing, size a power of two
  std::vector<std::pair<uint32_t, const ArgData*>> data_table_;
  size_t data_count_ = 0;
  ShapeTable shapes_;
  SideTable<const Shape*> shape_of_;                        // kNoShape for nodes without one
  BoundsTable bounds_;                                      // not of evident nodes, see bounds.cc
  absl::flat_hash_map<uint32_t, Bounds> dimension_bounds_;  // of sums and products; by id
  bool check_new_ = false;
  Interrupt* interrupt_ = nullptr;
  absl::flat_hash_map<uint32_t, Way> ways_;  // of what lies on long ways; never iterated over
  const uint64_t key_;                       // of the interning tables; that of the base
};

// While it lives, SPEC=2 does not check what is made in `ctx`: for readers of outside input, which
// verify by themselves and answer with an error.
class UncheckedNodes {
 public:
  explicit UncheckedNodes(UOpContext& ctx) : ctx_(ctx), before_(ctx.check_new_) {
    ctx_.check_new_ = false;
  }
  ~UncheckedNodes() { ctx_.check_new_ = before_; }
  UncheckedNodes(const UncheckedNodes&) = delete;
  UncheckedNodes& operator=(const UncheckedNodes&) = delete;

 private:
  UOpContext& ctx_;
  const bool before_;
};

}  // namespace uopd::ir
