// SPDX-License-Identifier: MIT
#include "core/codegen/linearise/nests.h"

#include <algorithm>
#include <utility>

#include "core/ir/graph.h"
#include "core/ir/verify/spec.h"

namespace uopd::codegen {
namespace {

using ir::Op;
using ir::UOp;

bool LoadsWhatOthersStore(const ir::UOpContext& ctx, std::span<const UOp> statements) {
  std::vector<std::vector<UOp>> loads(statements.size()), stores(statements.size());
  for (size_t i = 0; i < statements.size(); ++i) {
    for (UOp u : ir::Toposort(ctx, statements[i])) {
      if (!u.Is({Op::LOAD, Op::STORE})) continue;
      const UOp base = ir::MaybeBaseOf(u.src(0).src(0));
      if (base.Is(Op::PARAM)) (u.Is(Op::LOAD) ? loads : stores)[i].push_back(base);
    }
  }
  for (size_t i = 0; i < statements.size(); ++i) {
    for (size_t j = 0; j < statements.size(); ++j) {
      if (i == j) continue;
      for (UOp b : stores[i]) {
        if (std::find(loads[j].begin(), loads[j].end(), b) != loads[j].end()) return true;
      }
    }
  }
  return false;
}

// The statements of a kernel. A GROUP without ENDs is one statement: all its values are computed
// before its first STORE. (Its loops may be gone because they were unrolled.)
void Statements(UOp u, std::vector<UOp>& out) {
  std::vector<UOp> parts;
  Flatten(u, parts);
  const bool loops = std::any_of(parts.begin(), parts.end(), [](UOp s) { return s.Is(Op::END); });
  if (!u.Is(Op::GROUP) || !loops) return out.push_back(u);
  for (UOp s : u.srcs()) Statements(s, out);
}

}  // namespace

void Flatten(UOp statement, std::vector<UOp>& out) {
  if (!statement.Is(Op::GROUP)) return out.push_back(statement);
  for (UOp s : statement.srcs()) Flatten(s, out);
}

std::vector<Nest> Nests(const ir::UOpContext& ctx, UOp sink) {
  std::vector<UOp> statements;
  for (UOp s : sink.srcs()) Statements(s, statements);
  std::vector<Nest> out;
  const bool shares = !LoadsWhatOthersStore(ctx, statements);
  for (UOp s : statements) {
    Nest nest;
    if (s.Is(Op::END)) {
      nest.loops.assign(s.srcs().begin() + 1, s.srcs().end());
      std::sort(nest.loops.begin(), nest.loops.end(), [](UOp a, UOp b) {
        return std::pair(a.axis_id(), a.id()) < std::pair(b.axis_id(), b.id());
      });
      s = s.src(0);
    }
    Flatten(s, nest.stores);
    if (shares && !out.empty() && out.back().loops == nest.loops) {
      out.back().stores.insert(out.back().stores.end(), nest.stores.begin(), nest.stores.end());
    } else {
      out.push_back(std::move(nest));
    }
  }
  return out;
}

}  // namespace uopd::codegen
