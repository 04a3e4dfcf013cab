// SPDX-License-Identifier: MIT
#include "core/codegen/gpu/passes/pipeline/line_list.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "core/ir/graph.h"

namespace uopd::codegen {

using ir::Op;
using ir::UOp;

void LineList::Add(UOp u) {
  if (!u.Is(Op::CONST) && listed_.insert(u.id()).second) lines_.push_back(u);
}

UOp LineList::AddAll(UOp u) {
  const auto enter = [&](UOp n) {
    return !listed_.contains(n.id()) && !n.Is({Op::PARAM, Op::BUFFER});
  };
  for (UOp n : ir::Toposort(ctx_, std::span<const UOp>(&u, 1), enter)) {
    if (!n.Is({Op::PARAM, Op::BUFFER})) Add(n);
  }
  return u;
}

void LineList::Mark(Op op, ir::Arg arg) {
  Add(ctx_.Make(op, ir::Dtype::Void, {lines_.back()}, arg));
}

std::vector<UOp> LineList::Take() { return std::exchange(lines_, {}); }

std::vector<UOp> WithoutUnusedLines(std::span<const UOp> lines) {
  absl::flat_hash_set<uint32_t> used;
  for (size_t i = lines.size(); i-- > 0;) {
    const UOp u = lines[i];
    const bool keeps = u.dtype() == ir::Dtype::Void ||
                       u.Is({Op::PARAM, Op::BUFFER, Op::DEFINE_VAR, Op::SPECIAL, Op::RANGE});
    if (!keeps && !used.contains(u.id())) continue;
    used.insert(u.id());
    for (UOp s : u.srcs()) used.insert(s.id());
  }
  std::vector<UOp> out;
  std::ranges::copy_if(lines, std::back_inserter(out),
                       [&](UOp u) { return used.contains(u.id()); });
  return out;
}

}  // namespace uopd::codegen
