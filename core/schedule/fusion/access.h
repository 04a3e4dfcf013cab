// SPDX-License-Identifier: MIT
// Accesses: which element of a value a kernel needs, as an index over the ranges of the kernel, and
// under which condition (the gate). Fusion makes them, lowering turns them into addresses.
//
// Accesses are interned: equal ones are the same pointer. Ranges are numbered within their kernel,
// so repeated parts of a graph, and repeated attempts to fuse it, have equal accesses; each access
// is followed through a movement op only once. Accesses live as long as the table `Accesses`, which
// outlives all attempts.
#pragma once
#include <span>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "core/base/arena.h"
#include "core/ir/context.h"
#include "core/ir/shape.h"
#include "core/rewrite/rewriter.h"
#include "core/schedule/fusion/used_ranges.h"

namespace uopd::schedule {

// Movement ops as index arithmetic: the position in the source of an element of the result. Used by
// fusion and lowering through Accesses.
using IndexList = ir::SymbolicDims;  // one index expression per axis

// The index in u's source of the element of u at `index`. For a PAD, `gate` becomes false where the
// element is padding. The results are not simplified. REQUIRES: u is a movement op; `index` has one
// entry per axis of u.
IndexList SourceIndex(ir::UOpContext& ctx, ir::UOp u, std::span<const ir::UOp> index,
                      ir::UOp& gate);

// Row-major offset of an index in a buffer with these dimensions.
ir::UOp FlatIndex(ir::UOpContext& ctx, std::span<const int64_t> dims,
                  std::span<const ir::UOp> index);

struct Access {
  std::span<const ir::UOp> index;  // one expression per axis, simplified
  ir::UOp gate;                    // the element is needed only where this is true; simplified
  uint64_t ranges = 0;             // bits (UsedRanges) of the ranges that index and gate depend on
  uint16_t height = 0;             // height of the highest expression of index and gate

  bool always() const { return gate.IsConstInt(1); }
};

class Accesses {
 public:
  Accesses(ir::UOpContext& ctx, rewrite::Rewriter& simplify) : ctx_(ctx), simplify_(simplify) {}
  Accesses(const Accesses&) = delete;
  Accesses& operator=(const Accesses&) = delete;

  // The access with this index and gate, which are simplified first.
  const Access* At(std::span<const ir::UOp> index, ir::UOp gate);
  // The access of the source of the movement op u, if u is accessed by `a`.
  const Access* OfSource(ir::UOp u, const Access* a);
  // The access of a source of shape `in` of an elementwise op of shape `out`, if the op is accessed
  // by `a`: the trailing axes, with index 0 where `in` has size 1. `fewer`: the source has fewer
  // elements, so it is broadcast. It then loses the gate if its index is in range without it: loops
  // that only the gate uses need not be around the source.
  const Access* OfOperand(const ir::Shape* in, const ir::Shape* out, bool fewer, const Access* a);
  // Row-major offset of the element in a buffer of this shape, with every dimension at its largest;
  // simplified.
  ir::UOp Offset(const ir::Shape* shape, const Access* a);

  // The simplified expression.
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
  // Key of a derived access or offset: the access that it is derived from, and by what. `a`, `b`
  // and `c` are shapes and args, compared as pointers, since they are interned.
  struct Step {
    const Access* from;
    const void *a, *b, *c;
    uint64_t what;  // an op, or a constant of access.cc
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
