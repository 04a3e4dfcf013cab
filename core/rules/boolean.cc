// SPDX-License-Identifier: MIT
// Conditions and WHERE.
#include "core/ir/build.h"
#include "core/rules/rules.h"

namespace uopd::rules {

using namespace rewrite;  // NOLINT: the vocabulary of rules

const RuleSet& BooleanRules() {
  static const RuleSet rules = Built("boolean", [](RuleSet& r) {
    constexpr Any<0> x;
    constexpr Any<1> y;
    constexpr Any<2> p;
    constexpr Any<3> q;

    r.Add("and_true", x.Is(kBools) & 1, x);
    r.Add("or_true", x.Is(kBools) | 1, 1);
    r.Add("add_is_or", x.Is(kBools) + y,
          [x, y](const auto& m) { return ir::Alu(m.ctx, Op::OR, {m[x], m[y]}); });
    r.Add("mul_is_and", x.Is(kBools) * y,
          [x, y](const auto& m) { return ir::And(m.ctx, m[x], m[y]); });
    r.Add("max_is_or", Max(x.Is(kBools), y),
          [x, y](const auto& m) { return ir::Alu(m.ctx, Op::OR, {m[x], m[y]}); });
    r.Add("eq_true", x.Is(kBools) == 1, x);
    r.Add("eq_false", x.Is(kBools) == 0, Not(x));
    r.Add("ne_false", x.Is(kBools) != 0, x);
    r.Add("xor_true", x.Is(kBools) ^ 1, Not(x));
    r.Add("not_not", Not(Not(x.Is(kBools))), x);
    r.Add("and_again", (p & q) & q, p & q);
    r.Add("and_absorb", p.Is(kBools) & Not(p), 0);
    r.Add("or_all", p.Is(kBools) | Not(p), 1);

    r.Add("where_same", Where(p, x, x), x);
    r.Add("where_true", Where(Literal(1), x, y), x);
    r.Add("where_false", Where(Literal(0), x, y), y);
    r.Add("where_not", Where(Not(p), x, y), Where(p, y, x));
    r.Add("where_bool", Where(p, Is(x, kBools), y), [p, x, y](const auto& m) -> UOp {
      if (m[x].IsConstInt(1) && m[y].IsConstInt(0)) return m[p];
      if (m[x].IsConstInt(0) && m[y].IsConstInt(1)) return ir::Not(m.ctx, m[p]);
      return UOp();
    });
    r.Add("where_and", Where(p, Where(q, x, y), y), Where(p & q, x, y));
    r.Add("where_again", Where(p, Where(p, x, y), q), Where(p, x, q));
    r.Add("where_again_else", Where(p, q, Where(p, x, y)), Where(p, q, y));
    // Casting a condition gives 0 or 1.
    r.Add("cast_ne", Node(Op::CAST, x.Is(kBools)) != 0, x);
    r.Add("ne_of_cast_where", Node(Op::CAST, Where(p, x, y)), [p, x, y](const auto& m) -> UOp {
      if (!m[x].Is(Op::CONST) || !m[y].Is(Op::CONST)) return UOp();
      const Dtype d = m.root().dtype();
      return ir::Where(m.ctx, m[p], ir::Cast(m.ctx, m[x], d), ir::Cast(m.ctx, m[y], d));
    });
  });
  return rules;
}

}  // namespace uopd::rules
