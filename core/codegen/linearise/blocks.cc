// SPDX-License-Identifier: MIT
// Open loops of the Lineariser, and the lines in them.
//
// Invariant: the lines of a block are appended to the surrounding one when the block closes.
#include <algorithm>
#include <iterator>
#include <utility>

#include "core/codegen/linearise/lineariser.h"
#include "core/codegen/passes/unroll.h"
#include "core/ir/build.h"
#include "core/ir/graph.h"

namespace uopd::codegen {
namespace {

using ir::AxisType;
using ir::Dtype;
using ir::Op;
using ir::UOp;

}  // namespace

absl::Status Lineariser::Open(UOp range) {
  UOPD_TRY(Emit(range.srcs()));
  const UOp size = New(range.src(0));
  if (range.axis_type() == AxisType::THREAD) {
    UOPD_ASSIGN(grid_x_, LaunchSize::Of(size, variables_));
    const UOp special = ctx_.Make(Op::SPECIAL, Dtype::Index, {size},
                                  ctx_.Data({static_cast<int64_t>(AxisType::THREAD), 0}));
    if (path_[0].made.try_emplace(range.id(), special).second) path_[0].lines.push_back(special);
    return absl::OkStatus();
  }
  Block b;
  b.bit = bit_.at(range.id());
  b.range = Range(ctx_, size, next_loop_++, range.axis_type());
  b.lines.push_back(b.range);
  b.made[range.id()] = b.range;
  path_.push_back(std::move(b));
  return absl::OkStatus();
}

UOp Lineariser::Close(size_t depth, std::vector<UOp> statements) {
  UOp end;
  while (path_.size() > depth) {
    Block b = std::move(path_.back());
    path_.pop_back();
    UOp statement = statements[0];
    if (statements.size() > 1) {
      statement = ctx_.Make(Op::GROUP, Dtype::Void, statements);
      b.lines.push_back(statement);
    }
    end = ctx_.Make(Op::END, Dtype::Void, {statement, b.range});
    b.lines.push_back(end);
    auto& to = path_.back().lines;
    to.insert(to.end(), b.lines.begin(), b.lines.end());
    statements = {end};
  }
  return end;
}

Lineariser::Block& Lineariser::Home(UOp u) {
  const LoopSet loops = loops_.at(u.id());
  for (size_t i = path_.size(); i-- > 1;) {
    if ((path_[i].bit & loops) != 0) return path_[i];
  }
  return path_[0];
}

bool Lineariser::Inline(UOp u) {
  return u.Is(Op::CONST) || (u.Is(Op::STACK) && u.dtype() == Dtype::Index && u.n_src() == 0);
}

UOp Lineariser::New(UOp u) {
  if (u.Is(Op::CONST)) return u;
  return Home(u).made.at(u.id());
}

UOp Lineariser::LineAll(UOp u, UOp a, UOp b) {
  for (UOp n :
       ir::Toposort(ctx_, std::span<const UOp>(&u, 1), [&](UOp x) { return x != a && x != b; })) {
    if (n != a && n != b && !n.Is(Op::CONST)) Line(n);
  }
  return u;
}

}  // namespace uopd::codegen
