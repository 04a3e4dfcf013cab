// SPDX-License-Identifier: MIT
// Rules for conditions and WHERE.
#include <cmath>

#include "core/ir/build.h"
#include "core/rules/order.h"
#include "core/rules/rules.h"
#include "core/rules/terms.h"

namespace uopd::rules {
namespace {

using namespace rewrite;  // NOLINT: the vocabulary of rules

// op(where(c, a, b), where(c, d, e), ...) as where(c, op(a, d, ...), op(b, e, ...)). Sources may
// also be constants. Null unless one of the two new ops has only constant operands; with a single
// WHERE, both.
UOp Choose(UOpContext& ctx, UOp u) {
  UOp condition;
  ir::SymbolicDims branch[2];
  bool constant[2] = {true, true};
  size_t choices = 0;
  for (UOp s : u.srcs()) {
    if (s.Is(Op::CONST)) {
      branch[0].push_back(s);
      branch[1].push_back(s);
      continue;
    }
    if (condition && condition != s.src(0)) return UOp();
    condition = s.src(0);
    ++choices;
    for (size_t side = 0; side < 2; ++side) {
      branch[side].push_back(s.src(side + 1));
      constant[side] &= s.src(side + 1).Is(Op::CONST);
    }
  }
  const bool all = constant[0] && constant[1];
  if (choices == 0 || !(all || (choices > 1 && (constant[0] || constant[1])))) return UOp();
  const bool is_index = u.dtype() == Dtype::Index;
  if (is_index && !all && u.Is(OpSet{Op::ADD, Op::SUB})) return UOp();  // index.sum does
  const UOp holds = ctx.Make(u.op(), u.dtype(), branch[0]),
            fails = ctx.Make(u.op(), u.dtype(), branch[1]);
  if (is_index && (!FitsIndex(ctx, holds) || !FitsIndex(ctx, fails))) return UOp();
  const UOp out = ir::Where(ctx, condition, holds, fails);
  // An index around u may fit 64 bits only because of the bounds of u: refuse wider bounds.
  return all || !is_index || ctx.BoundsOf(out).Within(ctx.BoundsOf(u)) ? out : UOp();
}

// Rewrites e, where x == y is known, to an expression of y alone. Only if e consists of x, y,
// constants and a few ops, so that no shared node is computed twice. Null otherwise, or if the
// result would not be simpler. Not for a float y that may be 0: x may be the zero of the other
// sign.
class WithEqual {
 public:
  WithEqual(UOpContext& ctx, UOp x, UOp y) : ctx_(ctx), x_(x), y_(y) {}
  UOp Of(UOp e) {
    if (x_.Is(Op::CONST)) return UOp();
    const bool is_float = ir::IsFloat(x_.dtype());
    if (y_.Is(Op::CONST) ? is_float && !(std::abs(y_.const_float()) > 0)
                         : is_float || Compare(x_, y_) < 0)
      return UOp();
    const UOp out = Replace(e);
    return x_found_ && (y_found_ || y_.Is(Op::CONST)) ? out : UOp();
  }

 private:
  UOp Replace(UOp e) {  // recursive, at most 8 ops
    x_found_ |= e == x_;
    y_found_ |= e == y_;
    if (e == x_) return y_;
    if (e == y_ || e.Is(Op::CONST)) return e;
    if (!e.Is(ir::kElementwiseOps) || e.dtype() == Dtype::Index || --left_ < 0) return UOp();
    ir::SymbolicDims src;
    for (UOp s : e.srcs()) {
      const UOp r = Replace(s);
      if (!r) return UOp();
      src.push_back(r);
    }
    return ctx_.WithSources(e, src);
  }

  UOpContext& ctx_;
  const UOp x_, y_;
  int left_ = 8;
  bool x_found_ = false, y_found_ = false;
};

}  // namespace

const RuleSet& BooleanRules() {
  static const RuleSet rules = Built("boolean", [](RuleSet& r) {
    constexpr Any<0> x;
    constexpr Any<1> y;
    constexpr Any<2> p;
    constexpr Any<3> q;
    constexpr Const<4> c;
    constexpr Const<5> d;

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
    r.Add("or_again", (p | q) | q, p | q);
    r.Add("and_of_or", p & (p | q), p);
    r.Add("or_of_and", p | (p & q), p);
    r.Add("and_not_again", p.Is(kBools) & Not(p & q), p & Not(q));
    r.Add("lt_is_and", x.Is(kBools) < y, Not(x) & y);
    r.Add("xor_is_ne", x.Is(kBools) ^ y, x != y);
    r.Add("ne_of_not", x.Is(kBools) != Not(y),
          [x, y](const auto& m) { return ir::Alu(m.ctx, Op::CMPEQ, {m[x], m[y]}); });
    r.Add("not_ne", Not(x != y), x == y);
    r.Add("not_eq", Not(x == y), x != y);
    // Two bounds of the same value: keep the tighter one, or find the contradiction.
    r.Add("and_less", (x.Is(kInts) < c) & (x < d), [x, c, d](const auto& m) {
      return ir::Lt(m.ctx, m[x], m[c] < m[d] ? m.Node(c) : m.Node(d));
    });
    r.Add("and_not_less", Not(x.Is(kInts) < c) & Not(x < d), [x, c, d](const auto& m) {
      return ir::Not(m.ctx, ir::Lt(m.ctx, m[x], m[c] < m[d] ? m.Node(d) : m.Node(c)));
    });
    r.Add("and_never", (x.Is(kInts) < c) & Not(x < d), 0,
          [c, d](const auto& m) { return m[c] <= m[d]; });
    r.Add("or_always", (x.Is(kInts) < c) | Not(x < d), 1,
          [c, d](const auto& m) { return m[d] <= m[c]; });

    // Uses an equality of stored numbers in the branch that it guards. The rule given.where does
    // this for index values.
    constexpr DtypeSet kStored = kStoredInts | kFloats;
    r.Add("where_equal", Where(x.Is(kStored) == y, p, q), [x, y, p, q](const auto& m) -> UOp {
      const UOp out = WithEqual(m.ctx, m[x], m[y]).Of(m[p]);
      return out ? ir::Where(m.ctx, m.root().src(0), out, m[q]) : UOp();
    });
    r.Add("where_unequal", Where(x.Is(kStored) != y, p, q), [x, y, p, q](const auto& m) -> UOp {
      const UOp out = WithEqual(m.ctx, m[x], m[y]).Of(m[q]);
      return out ? ir::Where(m.ctx, m.root().src(0), m[p], out) : UOp();
    });
    r.Add("and_equal", (x.Is(kStored) == y) & p, [x, y, p](const auto& m) -> UOp {
      const UOp out = WithEqual(m.ctx, m[x], m[y]).Of(m[p]);
      if (!out) return UOp();
      return ir::And(m.ctx, m.root().src(m.root().src(0) == m[p] ? 1 : 0), out);
    });
    r.Add("where_same", Where(p, x, x), x);
    r.Add("where_true", Where(Literal(1), x, y), x);
    r.Add("where_false", Where(Literal(0), x, y), y);
    r.Add("where_not", Where(Not(p), x, y), Where(p, y, x));
    r.Add("where_and", Where(p, Where(q, x, y), y), Where(p & q, x, y));
    r.Add("where_again", Where(p, Where(p, x, y), q), Where(p, x, q));
    r.Add("where_again_else", Where(p, q, Where(p, x, y)), Where(p, q, y));
    r.Add("where_or", Where(p, x, Where(q, x, y)), [p, q, x, y](const auto& m) {
      return ir::Where(m.ctx, ir::Alu(m.ctx, Op::OR, {m[p], m[q]}), m[x], m[y]);
    });
    r.Add("where_is_and", Where(p, Is(x, kBools), Literal(0)), p & x);
    r.Add("where_is_or", Where(p, Literal(1), Is(x, kBools)), p | x);
    r.Add("where_is_and_not", Where(p, Literal(0), Is(x, kBools)), Not(p) & x);
    r.Add("add_of_where", Where(p, x.Is(kNotFloat), 0) + Where(p, 0, y), Where(p, x, y));
    // x <= y of integers: !(y < x), or x < y + 1 if y is a constant.
    r.Add("less_or_equal", (x.Is(kInts) < y) | (x == y), [x, y](const auto& m) -> UOp {
      if (m[y].Is(Op::CONST)) {
        const Int128 next = m.ctx.BoundsOf(m[y]).min + 1;
        const UOp limit = rewrite::FittingConst(m.ctx, m[y].dtype(), next);
        return limit ? ir::Lt(m.ctx, m[x], limit) : UOp();
      }
      return ir::Not(m.ctx, ir::Lt(m.ctx, m[y], m[x]));
    });
    // Merges WHEREs with the same condition if the number of ops does not grow.
    constexpr OpSet kOps = [] {
      OpSet out;
      for (int i = 0; i < ir::kOpCount; ++i) {
        const auto op = static_cast<Op>(i);
        if (ir::OpSet(ir::kUnaryOps | ir::kBinaryOps).Has(op) && op != Op::THREEFRY) out.Add(op);
      }
      return out;
    }();
    r.Add("op_of_where", Group(kOps, Each(Group(OpSet{Op::WHERE, Op::CONST}, Rest()))),
          [](const auto& m) -> UOp {
            // Codegen tags the terms of an unrolled sum, to add them to the accumulator one by one.
            return m.root().tag() != 0 ? UOp() : Choose(m.ctx, m.root());
          });
  });
  return rules;
}

}  // namespace uopd::rules
