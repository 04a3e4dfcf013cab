// SPDX-License-Identifier: MIT
// Where the Lineariser puts values: each in the innermost loop that it depends on; reductions and
// arrays over equal loops in the same place share one loop.
#include <algorithm>
#include <iterator>

#include "core/codegen/linearise/lineariser.h"
#include "core/ir/build.h"
#include "core/ir/graph.h"

namespace uopd::codegen {
namespace {

using ir::Dtype;
using ir::Op;
using ir::UOp;

}  // namespace

absl::Status Lineariser::Emit(std::span<const UOp> roots) {
  LoopSet open = 0;
  for (const Block& b : path_) open |= b.bit;
  auto enter = [&](UOp u) { return !u.Is({Op::PARAM, Op::BUFFER}) && !IsMade(u); };
  for (UOp u : ir::Toposort(ctx_, roots, enter)) {
    if (ctx_.Interrupted(4)) return ctx_.CheckInterrupt();
    if (u.dtype() == Dtype::Void) continue;  // a statement: emitted with its array
    if ((loops_.at(u.id()) & ~open) != 0 || IsMade(u))
      continue;  // depends on a closed loop: emitted with its reduction or array
    if (HasLoops(u)) {
      UOPD_TRY(EmitWithLoops(u));
      continue;
    }
    if (u.Is(Op::SCAN)) {
      UOPD_TRY(EmitScan(u));
      continue;
    }
    Block& home = Home(u);
    UOp made = u;
    if (u.Is(Op::BUFFER)) {
      made = ir::Buffer(ctx_, next_register_++, u.dtype(), u.src(0), u.addrspace());
    } else if (!u.Is(Op::PARAM)) {
      std::vector<UOp> srcs;
      for (UOp s : u.srcs()) srcs.push_back(New(s));
      made = ctx_.Make(u.op(), u.dtype(), srcs, u.arg(),
                       u.Is(ir::OpSet{Op::LOAD, Op::EXP2, Op::EXP}) ? u.tag() : 0);
    }
    home.made[u.id()] = made;
    home.lines.push_back(made);
  }
  return absl::OkStatus();
}

std::vector<UOp> Lineariser::WithLoops(std::span<const UOp> roots) {
  std::vector<UOp> out;
  for (UOp u : ir::Toposort(ctx_, roots)) {
    if (HasLoops(u)) out.push_back(u);
  }
  return out;
}

absl::Status Lineariser::EmitWithLoops(UOp first) {
  std::vector<UOp> together;
  const auto loops = LoopsOf(first);
  for (UOp r : with_loops_) {
    const auto mine = LoopsOf(r);
    const bool same = std::equal(mine.begin(), mine.end(), loops.begin(), loops.end());
    if (same && level_[r.id()] == level_[first.id()] && loops_[r.id()] == loops_[first.id()] &&
        !IsMade(r))
      together.push_back(r);
  }
  // The reduction or array stands outside of the open loops that it does not depend on: set those
  // blocks aside while it is emitted.
  size_t keep = 1;
  for (size_t i = 1; i < path_.size(); ++i) {
    if ((path_[i].bit & loops_.at(first.id())) != 0) keep = i + 1;
  }
  std::vector<Block> set_aside(
      std::make_move_iterator(path_.begin() + static_cast<std::ptrdiff_t>(keep)),
      std::make_move_iterator(path_.end()));
  path_.resize(keep);
  UOPD_TRY(EmitLoops(together));
  for (Block& b : set_aside) path_.push_back(std::move(b));
  return absl::OkStatus();
}

}  // namespace uopd::codegen
