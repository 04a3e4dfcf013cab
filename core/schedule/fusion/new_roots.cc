// SPDX-License-Identifier: MIT
#include "core/schedule/fusion/new_roots.h"

#include "core/ir/build.h"

namespace uopd::schedule {

using ir::AxisType;
using ir::Shape;
using ir::UOp;

uint32_t NewRoots::Make(UOp node, Shape shape, int32_t device) {
  Root root;
  root.device = device;
  root.ranges.reserve(shape.size());
  const auto& cuts = constraints_.cuts;
  const auto first = cuts.lower_bound({node.id(), 0, 0});
  if (first != cuts.end() && first->node == node.id()) {
    for (UOp d : shape) {
      if (!d.IsConstInt(1)) AddAxis(root, node, d);
    }
  } else {
    for (UOp d : shape) {
      if (!d.IsConstInt(1)) AddRange(root, d);
    }
  }
  root.loops = static_cast<uint32_t>(f_.loops.size());
  f_.loops.push_back(root.ranges);
  f_.roots.push_back(std::move(root));
  return static_cast<uint32_t>(f_.roots.size() - 1);
}

UOp NewRoots::AddRange(Root& root, UOp size) {
  root.ranges.push_back(ir::Range(ctx_, size, root.next_range++, AxisType::LOOP));
  return root.ranges.back();
}

void NewRoots::AddAxis(Root& root, UOp node, UOp size) {
  const auto axis = static_cast<uint32_t>(root.axes.size());
  const auto& cuts = constraints_.cuts;
  const auto first = cuts.lower_bound({node.id(), axis, 0}),
             end = cuts.lower_bound({node.id(), axis + 1, 0});
  if (first == end) return root.axes.push_back({size, AddRange(root, size)});
  UOp at = ctx_.Idx(0);
  int64_t left = size.const_int();
  for (auto cut = end; cut != first;) {
    const int64_t stride = (--cut)->stride;
    at =
        ir::Add(ctx_, at, ir::Mul(ctx_, AddRange(root, ctx_.Idx(left / stride)), ctx_.Idx(stride)));
    left = stride;
  }
  root.axes.push_back({size, accesses_.Simple(ir::Add(ctx_, at, AddRange(root, ctx_.Idx(left))))});
}

const Access* NewRoots::Whole(uint32_t root, Shape shape) {
  IndexList index;
  size_t next = 0;
  for (UOp d : shape)
    index.push_back(d.IsConstInt(1) ? ctx_.Idx(0) : f_.roots[root].axis(next++).at);
  return accesses_.At(index, ctx_.Bool(true));
}

}  // namespace uopd::schedule
