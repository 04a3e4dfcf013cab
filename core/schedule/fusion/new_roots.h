// SPDX-License-Identifier: MIT
// Makes roots (fusion.h): the ranges of a new kernel over the shape of its first output. A
// constraint may cut an axis into several ranges (AxisCut).
#pragma once
#include "core/schedule/fusion/fusion.h"

namespace uopd::schedule {

// Not thread-safe.
class NewRoots {
 public:
  // All arguments outlive the object.
  NewRoots(ir::UOpContext& ctx, Accesses& accesses, const Constraints& constraints, Fusion& f)
      : ctx_(ctx), accesses_(accesses), constraints_(constraints), f_(f) {}

  // The number of a new root with new ranges over `shape`; `node` will be its first output.
  uint32_t Make(ir::UOp node, ir::Shape shape, int32_t device);

  // The element of a value of this shape that an iteration of the root writes. REQUIRES: the root's
  // axes are those of the shape.
  const Access* Whole(uint32_t root, ir::Shape shape);

 private:
  ir::UOp AddRange(Root& root, ir::UOp size);
  // Adds one axis to the root: one range, or several if a constraint cuts it.
  void AddAxis(Root& root, ir::UOp node, ir::UOp size);

  ir::UOpContext& ctx_;
  Accesses& accesses_;
  const Constraints& constraints_;
  Fusion& f_;
};

}  // namespace uopd::schedule
