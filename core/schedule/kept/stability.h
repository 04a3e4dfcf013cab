// SPDX-License-Identifier: MIT
// Stability: which values of a graph depend on stable slots and constants alone, and what it costs
// to compute them.
#pragma once
#include <span>
#include <vector>

#include "core/ir/context.h"

namespace uopd::schedule {

class Stability {
 public:
  // `order`: the graph, sources first. `stable`: by slot.
  Stability(ir::UOpContext& ctx, std::span<const ir::UOp> order, const std::vector<bool>& stable);

  // The value is the same in every run. True for constants, false for variables.
  bool IsStable(ir::UOp u) const { return facts_[u.id()].stable; }
  // The value is stable and depends on a slot or a position, so it is no plain constant.
  bool Varies(ir::UOp u) const { return facts_[u.id()].stable && facts_[u.id()].varies; }
  // Operations for one element, without loads (OpWork).
  double Work(ir::UOp u) const { return facts_[u.id()].work; }
  // Bytes of the slots that the value depends on; those that are read twice count twice.
  double LeafBytes(ir::UOp u) const { return facts_[u.id()].leaf_bytes; }

 private:
  struct Facts {
    bool stable = false, varies = false;
    double work = 0, leaf_bytes = 0;
  };
  std::vector<Facts> facts_;  // by node id
};

}  // namespace uopd::schedule
