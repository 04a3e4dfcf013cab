// SPDX-License-Identifier: MIT
#include "core/render/gated_index.h"

#include <algorithm>

namespace uopd::render {

using ir::Op;
using ir::UOp;

int64_t GatedIndices::DepthOf(UOp u) {
  if (u.Is(Op::CONST)) return 0;
  if (const auto it = depths_.find(u.id()); it != depths_.end()) return it->second;
  int64_t out = 0;
  if (u.Is(Op::RANGE)) {
    const auto at = std::find(open_.begin(), open_.end(), u);
    out = at == open_.end() ? 0 : at - open_.begin() + 1;
  } else if (!u.Is({Op::LOAD, Op::PARAM, Op::BUFFER, Op::AFTER, Op::END})) {
    for (UOp s : u.srcs()) out = std::max(out, DepthOf(s));
  } else {
    out = static_cast<int64_t>(open_.size());
  }
  return depths_[u.id()] = out;
}

GatedIndex GatedIndices::PartsOf(UOp index, int64_t limit) {
  GatedIndex out;
  const int64_t depth = DepthOf(index.src(2));
  std::vector<UOp> todo = {index.src(1)};
  while (!todo.empty()) {
    const UOp u = todo.back();
    todo.pop_back();
    if (u.Is(Op::CONST)) {
      out.offset += u.const_int();
    } else if (u.Is(Op::ADD) && (u.src(1).Is(Op::CONST) || DepthOf(u) > depth)) {
      todo.push_back(u.src(1));
      todo.push_back(u.src(0));
    } else if (DepthOf(u) <= depth) {
      out.starts.push_back(u);
    } else {
      const auto bounds = ctx_.BoundsOf(u);
      const bool fits = bounds.known() && bounds.min >= 0 && out.most + bounds.max < limit;
      if (fits) out.most += std::max<int64_t>(0, static_cast<int64_t>(bounds.max));
      (fits ? out.steps : out.starts).push_back(u);
    }
  }
  return out;
}

}  // namespace uopd::render
