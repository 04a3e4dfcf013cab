// SPDX-License-Identifier: MIT
// Accesses: at which element of a value something is needed, in terms of the ranges of a kernel,
// and under which condition.
//
// Ranges are numbered within their kernel, so what repeats in a graph accesses its values alike,
// and so does what is fused again. Accesses are therefore interned (equal ones are the same
// pointer), and what follows from one by a movement op is found once. They live as long as the
// table, which outlives every attempt to fuse a graph.
#pragma once
#include <span>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "core/base/arena.h"
#include "core/ir/context.h"
#include "core/rewrite/rewriter.h"
#include "core/schedule/movement.h"
#include "core/schedule/used_ranges.h"

namespace uopd::schedule {

struct Access {
  std::span<const ir::UOp> index;  // one expression per axis, simplified
  ir::UOp gate;                    // the element matters only where this holds; simplified
  uint64_t ranges = 0;             // bits (UsedRanges) of those that index or gate vary with
  uint16_t height = 0;             // ops above each other in index or gate, at most

  bool always() const { return gate.IsConstInt(1); }
};

class Accesses {
 public:
  Accesses(ir::UOpContext& ctx, rewrite::Rewriter& simplify) : ctx_(ctx), simplify_(simplify) {}
  Accesses(const Accesses&) = delete;
  Accesses& operator=(const Accesses&) = delete;

  const Access* At(std::span<const ir::UOp> index, ir::UOp gate);
  // Of the source of the movement op u, where u is accessed by `a`.
  const Access* OfSource(ir::UOp u, const Access* a);
  // Of a source of this shape of an elementwise op of shape `out` that is accessed by `a`: trailing
  // axes, those of size 1 at 0. What broadcasts (`fewer` elements) can be computed outside of loops
  // that only the gate uses, so it loses the gate where its index is inside of it anyway.
  const Access* OfOperand(const ir::Shape* in, const ir::Shape* out, bool fewer, const Access* a);
  // Offset of the element in a buffer of this shape, at the largest of every dimension; simplified.
  ir::UOp Offset(const ir::Shape* shape, const Access* a);

  ir::UOp Simple(ir::UOp u) {
    const bool is_simple =
        u.Is(ir::Op::CONST) || (u.Is(ir::Op::RANGE) && u.src(0).Is(ir::Op::CONST));
    return is_simple ? u : simplify_.Run(u);
  }

 private:
  struct Hash {
    size_t operator()(const Access* a) const;
  };
  struct Equal {
    bool operator()(const Access* a, const Access* b) const;
  };
  // What one access is derived from: the access, and what is done to it.
  struct Step {
    const Access* from;
    const void *a, *b, *c;
    uint64_t what;
    bool operator==(const Step&) const = default;
  };
  struct StepHash {
    size_t operator()(const Step& s) const;
  };

  ir::UOpContext& ctx_;
  rewrite::Rewriter& simplify_;
  Arena arena_;
  UsedRanges used_;
  absl::flat_hash_set<const Access*, Hash, Equal> known_;
  absl::flat_hash_map<Step, const Access*, StepHash> steps_;
  absl::flat_hash_map<Step, ir::UOp, StepHash> offsets_;
};

}  // namespace uopd::schedule
