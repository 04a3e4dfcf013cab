// SPDX-License-Identifier: MIT
// The loops that each node of a kernel depends on.
#pragma once
#include <span>

#include "absl/container/flat_hash_map.h"
#include "core/base/status.h"
#include "core/ir/context.h"
#include "core/ir/dtype.h"

namespace uopd::codegen {

using LoopSet = ir::Int128;  // a bit for each loop

// An array together with the statement that fills it (LowerStages).
inline bool IsFilledArray(ir::UOp u) { return u.Is(ir::Op::AFTER) && u.src(0).Is(ir::Op::BUFFER); }

// Whether the line(s) of u need loops of their own.
inline bool HasLoops(ir::UOp u) { return u.Is(ir::Op::REDUCE) || IsFilledArray(u); }

// The loops that a REDUCE or a filled array closes.
std::span<const ir::UOp> LoopsOf(ir::UOp u);

class NodeLoops {
 public:
  // UNIMPLEMENTED for a kernel with too many loops.
  static absl::StatusOr<NodeLoops> Of(const ir::UOpContext& ctx, ir::UOp sink);

  // The bits of RANGEs of the kernel. That of a THREAD range is 0.
  LoopSet Bits(std::span<const ir::UOp> ranges) const;
  // The loops that a node of the kernel depends on.
  LoopSet Along(ir::UOp u) const { return along_.at(u.id()); }
  // How deep reductions and arrays nest in a node of the kernel.
  int Level(ir::UOp u) const { return level_.at(u.id()); }

 private:
  NodeLoops() = default;

  absl::flat_hash_map<uint32_t, LoopSet> bit_, along_;
  absl::flat_hash_map<uint32_t, int> level_;
};

}  // namespace uopd::codegen
