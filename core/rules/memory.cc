// SPDX-License-Identifier: MIT
// Rules for gates. Under a false gate a LOAD is 0 and a STORE does nothing; a true gate is
// redundant.
#include <algorithm>
#include <cmath>

#include "absl/container/inlined_vector.h"
#include "core/ir/build.h"
#include "core/rules/rules.h"

namespace uopd::rules {
namespace {

using namespace rewrite;  // NOLINT: the vocabulary of rules

// The conjuncts of a condition, left to right.
absl::InlinedVector<UOp, 8> Conjuncts(UOp condition) {
  absl::InlinedVector<UOp, 8> out, stack = {condition};
  while (!stack.empty()) {
    const UOp c = stack.back();
    stack.pop_back();
    if (c.Is(Op::AND) && c.dtype() == Dtype::Bool) {
      stack.push_back(c.src(1));
      stack.push_back(c.src(0));
    } else
      out.push_back(c);
  }
  return out;
}

// where(c, load, 0) of a gated load: drops the conjuncts of c that the gate contains too. Conjuncts
// do not move from c into the gate: an ungated load is cheaper than a masked one.
UOp DropGated(UOpContext& ctx, UOp c, UOp load, UOp zero) {
  const auto gate = Conjuncts(load.src(0).src(2)), all = Conjuncts(c);
  UOp rest;
  size_t kept = 0;
  for (UOp part : all) {
    if (std::find(gate.begin(), gate.end(), part) != gate.end()) continue;
    rest = rest ? ir::And(ctx, rest, part) : part;
    ++kept;
  }
  if (kept == all.size()) return UOp();
  return rest ? ir::Where(ctx, rest, load, zero) : load;
}

}  // namespace

const RuleSet& MemoryRules() {
  static const RuleSet rules = Built("memory", [](RuleSet& r) {
    constexpr Any<0> buffer;
    constexpr Any<1> index;
    constexpr Any<2> gate;
    constexpr Any<3> value;

    r.Add("open_gate", Node(Op::INDEX, buffer, index, Literal(1)),
          [buffer, index](const auto& m) -> UOp {
            return m.ctx.Make(Op::INDEX, m.root().dtype(), {m[buffer], m[index]}, m.root().arg());
          });
    r.Add("closed_load", Node(Op::LOAD, Node(Op::INDEX, buffer, index, Literal(0))),
          [](const auto& m) -> UOp {
            return m.root().src(0).arg().AsInt() == 0 ? m.ctx.Const(m.root().dtype(), 0) : UOp();
          });
    r.Add("closed_store", Node(Op::STORE, Node(Op::INDEX, buffer, index, Literal(0)), value),
          [](const auto& m) -> UOp {
            return m.ctx.Make(Op::GROUP, Dtype::Void, std::span<const UOp>{});
          });
    // where(c, load, 0) is the load itself if its gate contains c. A closed gate gives +0, so the
    // branch must be +0, not -0.
    r.Add("gated_where", Where(gate, Node(Op::LOAD, Node(Op::INDEX, buffer, index, value)), 0),
          [gate](const auto& m) -> UOp {
            const UOp zero = m.root().src(2);
            if (ir::IsFloat(zero.dtype()) && std::signbit(zero.const_float())) return UOp();
            return DropGated(m.ctx, m[gate], m.root().src(1), zero);
          });
  });
  return rules;
}

}  // namespace uopd::rules
