// SPDX-License-Identifier: MIT
#include "core/codegen/passes/open_ranges.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "core/ir/graph.h"

namespace uopd::codegen {

using ir::UOp;

OpenRanges::OpenRanges(const ir::UOpContext& ctx, UOp sink) {
  for (UOp u : ir::Toposort(ctx, sink)) {
    std::vector<uint32_t> mine;
    if (u.Is(ir::Op::RANGE)) mine.push_back(u.id());
    for (UOp s : u.body()) {
      std::vector<uint32_t> both;
      const auto& from = along_.at(s.id());
      std::set_union(mine.begin(), mine.end(), from.begin(), from.end(), std::back_inserter(both));
      mine = std::move(both);
    }
    for (UOp r : u.closed()) std::erase(mine, r.id());
    along_[u.id()] = std::move(mine);
  }
}

bool OpenRanges::Varies(UOp u, UOp range) const {
  return std::ranges::binary_search(Of(u), range.id());
}

}  // namespace uopd::codegen
