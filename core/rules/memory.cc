// SPDX-License-Identifier: MIT
// Gates: what a false gate guards is zero or does not happen, what a true one guards needs no gate.
#include "core/ir/build.h"
#include "core/rules/rules.h"

namespace uopd::rules {
namespace {

using namespace rewrite;  // NOLINT: the vocabulary of rules

// True if every conjunct of `c` is one of `gate`.
bool Implies(UOp gate, UOp c) {
  if (gate == c) return true;
  if (c.Is(Op::AND)) return Implies(gate, c.src(0)) && Implies(gate, c.src(1));
  return gate.Is(Op::AND) && (Implies(gate.src(0), c) || Implies(gate.src(1), c));
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
    // where(c, load, 0) is the load when its gate already contains c. Only +0 is what a closed gate
    // gives.
    r.Add("gated_where", Where(gate, Node(Op::LOAD, Node(Op::INDEX, buffer, index, value)), 0),
          [gate, value](const auto& m) -> UOp {
            const UOp zero = m.root().src(2);
            if (ir::IsFloat(zero.dtype()) && std::signbit(zero.const_float())) return UOp();
            return Implies(m[value], m[gate]) ? m.root().src(1) : UOp();
          });
  });
  return rules;
}

}  // namespace uopd::rules
