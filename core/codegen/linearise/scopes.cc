// SPDX-License-Identifier: MIT
#include "core/codegen/linearise/scopes.h"

#include <iterator>
#include <utility>

#include "core/ir/build.h"
#include "core/ir/graph.h"

namespace uopd::codegen {
namespace {

using ir::Dtype;
using ir::Op;
using ir::UOp;

// Constants and the shapes of buffers are not lines.
bool IsNoLine(UOp u) {
  return u.Is(Op::CONST) || (u.Is(Op::STACK) && u.dtype() == Dtype::Index && u.n_src() == 0);
}

}  // namespace

UOp Scope::LineAll(const ir::UOpContext& ctx, UOp u, UOp a, UOp b) {
  for (UOp n :
       ir::Toposort(ctx, std::span<const UOp>(&u, 1), [&](UOp x) { return x != a && x != b; })) {
    if (n != a && n != b && !n.Is(Op::CONST)) Line(n);
  }
  return u;
}

LoopSet Scopes::OpenLoops() const {
  LoopSet open = 0;
  for (const Scope& b : path_) open |= b.bit;
  return open;
}

void Scopes::Open(UOp range, UOp size) {
  Scope b;
  b.bit = loops_.Bits(std::span<const UOp>(&range, 1));
  b.range = ir::Range(ctx_, size, next_loop_++, range.axis_type());
  b.lines.push_back(b.range);
  b.made[range.id()] = b.range;
  path_.push_back(std::move(b));
}

UOp Scopes::Close(size_t depth, std::vector<UOp> statements) {
  UOp end;
  while (path_.size() > depth) {
    Scope b = std::move(path_.back());
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

std::vector<Scope> Scopes::SetAside(LoopSet loops) {
  size_t keep = 1;
  for (size_t i = 1; i < path_.size(); ++i) {
    if ((path_[i].bit & loops) != 0) keep = i + 1;
  }
  std::vector<Scope> set_aside(
      std::make_move_iterator(path_.begin() + static_cast<std::ptrdiff_t>(keep)),
      std::make_move_iterator(path_.end()));
  path_.resize(keep);
  return set_aside;
}

void Scopes::PutBack(std::vector<Scope> set_aside) {
  for (Scope& b : set_aside) path_.push_back(std::move(b));
}

Scope& Scopes::Home(UOp u) {
  const LoopSet loops = loops_.Along(u);
  for (size_t i = path_.size(); i-- > 1;) {
    if ((path_[i].bit & loops) != 0) return path_[i];
  }
  return path_[0];
}

Scope* Scopes::MaybeAround(LoopSet loops) {
  for (size_t outer = 1; outer < path_.size(); ++outer) {
    if ((path_[outer].bit & loops) != 0) return &path_[outer - 1];
  }
  return nullptr;
}

bool Scopes::IsMade(UOp u) { return IsNoLine(u) || Home(u).made.contains(u.id()); }

UOp Scopes::New(UOp u) {
  if (u.Is(Op::CONST)) return u;
  return Home(u).made.at(u.id());
}

}  // namespace uopd::codegen
