// SPDX-License-Identifier: MIT
#include "core/schedule/prepare/axis_map.h"

namespace uopd::schedule {
namespace {

using ir::Op;
using ir::Shape;
using ir::UOp;

AxisMap ThroughReshape(const Shape& in, const Shape& out, const AxisMap& map) {
  AxisMap below(in.size(), -1);
  size_t i = 0, j = 0;
  while (i < in.size() && j < out.size()) {
    if (in[i].IsConstInt(1)) {
      ++i;
    } else if (out[j].IsConstInt(1)) {
      ++j;
    } else if (in[i] == out[j]) {
      below[i++] = map[j++];
    } else {
      // A group of axes that are split or merged, of constant sizes.
      int64_t left = 1, right = 1;
      do {
        const bool take_in = left <= right;
        if (take_in ? i == in.size() : j == out.size()) return below;
        const UOp size = take_in ? in[i++] : out[j++];
        if (!size.Is(Op::CONST) || size.const_int() == 0) return below;
        (take_in ? left : right) *= size.const_int();
      } while (left != right);
    }
  }
  return below;
}

}  // namespace

AxisMap MapBelow(ir::UOpContext& ctx, UOp u, const AxisMap& map) {
  if (u.Is(Op::RESHAPE)) return ThroughReshape(*ctx.ShapeOf(u.src(0)), *ctx.ShapeOf(u), map);
  if (u.Is(Op::EXPAND)) {
    const size_t rank = ctx.ShapeOf(u.src(0))->size();
    return {map.end() - static_cast<std::ptrdiff_t>(rank), map.end()};
  }
  if (!u.Is(Op::PERMUTE)) return map;
  AxisMap below(map.size(), -1);
  for (size_t i = 0; i < map.size(); ++i) below[static_cast<size_t>(u.ints()[i])] = map[i];
  return below;
}

}  // namespace uopd::schedule
