// SPDX-License-Identifier: MIT
// UOp: one immutable, hash-consed node of the IR, and its arg.
//
// A UOp is an 8-byte handle to a node that a UOpContext owns; it lives as long as the context and
// is null only where a name says `maybe_`. Equal nodes of one context are the same pointer, so ==
// is equality of whole graphs.
//
// Invariants
//   (1) A node never changes once made.
//   (2) Its sources were made before it (smaller ids), in the same context or in the frozen base of
//       it.
//   (3) id() is dense and grows in creation order; nothing may depend on addresses.
#pragma once
#include <bit>
#include <cstdint>
#include <span>
#include <string_view>

#include "core/ir/dtype.h"
#include "core/ir/op.h"

namespace uopd::ir {

// Integers and a text, interned per context: two equal ArgData of a context are the same pointer.
struct ArgData {
  uint32_t n_ints, n_chars;
  uint64_t hash;  // of what follows
  const int64_t* ints_begin() const { return reinterpret_cast<const int64_t*>(this + 1); }
  std::span<const int64_t> ints() const { return {ints_begin(), n_ints}; }
  std::string_view text() const {
    return {reinterpret_cast<const char*>(ints_begin() + n_ints), n_chars};
  }
};

// Eight bytes whose meaning is ArgSchema of the op (and, for CONST, the dtype).
struct Arg {
  uint64_t bits = 0;

  static Arg Int(int64_t v) { return {static_cast<uint64_t>(v)}; }
  static Arg Float(double v) { return {std::bit_cast<uint64_t>(v)}; }
  static Arg Data(const ArgData* d) { return {reinterpret_cast<uint64_t>(d)}; }
  int64_t AsInt() const { return static_cast<int64_t>(bits); }
  double AsFloat() const { return std::bit_cast<double>(bits); }
  const ArgData& AsData() const { return *reinterpret_cast<const ArgData*>(bits); }
  bool operator==(const Arg&) const = default;
};

class UOp;

// The head of a node. Its sources follow, then its arg and its tag, 8 bytes each: most nodes have
// no tag, and many no arg.
struct Node {
  Op op;
  Dtype dtype;
  bool has_arg;  // always, where the op takes one
  bool has_tag;
  uint32_t n_src;
  uint32_t id;
  uint32_t ranges;  // bits of the RANGEs that the node reaches; RANGEs get the 32 bits in turn

  const UOp* src_begin() const { return reinterpret_cast<const UOp*>(this + 1); }
  const uint64_t* words() const { return reinterpret_cast<const uint64_t*>(this + 1) + n_src; }
  // REQUIRES: has_arg.
  Arg arg() const { return {words()[0]}; }
  // REQUIRES: has_tag.
  int64_t tag() const { return static_cast<int64_t>(words()[has_arg ? 1 : 0]); }
};
static_assert(sizeof(Node) == 16);

class UOp {
 public:
  constexpr UOp() = default;
  explicit constexpr UOp(const Node* node) : node_(node) {}

  Op op() const { return node_->op; }
  Dtype dtype() const { return node_->dtype; }
  uint32_t id() const { return node_->id; }
  // A number by which passes distinguish nodes that are equal otherwise. Never sent.
  int64_t tag() const { return node_->has_tag ? node_->tag() : 0; }
  Arg arg() const { return node_->has_arg ? node_->arg() : Arg{}; }
  size_t n_src() const { return node_->n_src; }
  UOp src(size_t i) const { return node_->src_begin()[i]; }
  std::span<const UOp> srcs() const { return {node_->src_begin(), node_->n_src}; }
  const Node* node() const { return node_; }

  // For ops that close loops (kClosingOps), the sources are body() and closed(): the values inside
  // of the loops, and the ranges of the loops. For other ops, body() has all sources.
  size_t n_body() const {
    if (!Is(kClosingOps)) return n_src();
    return Is(Op::STAGE) ? 3 : 1;
  }
  // The RANGEs that a SCAN of a kernel runs over; none for other ops. Unlike the ranges that an op
  // closes, its value depends on them.
  std::span<const UOp> scanned() const {
    return Is(Op::SCAN) ? srcs().subspan(1) : std::span<const UOp>();
  }
  std::span<const UOp> body() const { return srcs().first(n_body()); }
  std::span<const UOp> closed() const { return srcs().subspan(n_body()); }

  explicit operator bool() const { return node_ != nullptr; }
  bool operator==(const UOp&) const = default;

  // False: the RANGE is not reachable from this node. True: it may be; see Reaches (graph.h).
  bool MayReach(UOp range) const {
    return (node_->ranges & range.node_->ranges) == range.node_->ranges;
  }

  bool Is(Op op) const { return node_->op == op; }
  bool Is(OpSet ops) const { return ops.Has(node_->op); }

  // Typed views of the arg. REQUIRES: the op's ArgSchema is the one named.
  std::span<const int64_t> ints() const {
    return node_->arg().AsData().ints();
  }  // Ints, and all data args
  std::string_view text() const {
    return node_->arg().AsData().text();
  }  // Text, Param, Var, Kernel
  int64_t slot() const { return ints()[0]; }                                 // Param
  AddrSpace addrspace() const { return static_cast<AddrSpace>(ints()[1]); }  // Param
  Op reduce_op() const { return *OpByWire(ints()[0]); }                      // Reduce
  std::span<const int64_t> reduce_axes() const { return ints().subspan(1); }
  int64_t axis_id() const { return ints()[0]; }  // Range
  AxisType axis_type() const { return static_cast<AxisType>(ints()[1]); }

  // CONST only. Integers as the wrapped value (u64 as its bit pattern); floats rounded to the
  // dtype.
  int64_t const_int() const { return node_->arg().AsInt(); }
  double const_float() const { return node_->arg().AsFloat(); }
  bool IsConstInt(int64_t v) const {
    return Is(Op::CONST) && !IsFloat(dtype()) && const_int() == v;
  }
  // Numerically equal to v, for any dtype; -0.0 equals 0.
  bool IsConst(double v) const {
    if (!Is(Op::CONST)) return false;
    return IsFloat(dtype()) ? const_float() == v : static_cast<double>(const_int()) == v;
  }

 private:
  const Node* node_ = nullptr;
};
static_assert(sizeof(UOp) == 8);

}  // namespace uopd::ir
