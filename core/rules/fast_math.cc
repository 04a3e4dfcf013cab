// SPDX-License-Identifier: MIT
// Float identities that hold for real numbers but not in IEEE arithmetic: they change rounding,
// signs of zeros, or the results for NaN and infinity. Only FastSymbolicRules contains them, for
// kernels whose client has allowed it.
#include <algorithm>
#include <cmath>
#include <numbers>

#include "absl/container/inlined_vector.h"
#include "core/ir/build.h"
#include "core/rules/rules.h"

namespace uopd::rules {
namespace {

using namespace rewrite;  // NOLINT: the vocabulary of rules

// Up to this power products are cheaper than POW and not much less accurate.
constexpr double kMaxPower = 16;

// x to the power of a multiple of a half; null for other powers, and for 0 and 1.
UOp PowerOfHalves(UOpContext& ctx, UOp x, double power) {
  const double magnitude = std::abs(power), whole = std::floor(magnitude);
  if (!(magnitude <= kMaxPower) || power == 0 || power == 1) return UOp();
  const bool half = magnitude - whole == 0.5;
  if (!half && magnitude != whole) return UOp();
  UOp out = whole > 0 ? Power(ctx, x, static_cast<int64_t>(whole)) : UOp();
  if (half) {
    const UOp root = ir::Alu(ctx, Op::SQRT, {x});
    out = out ? ir::Mul(ctx, out, root) : root;
  }
  return power > 0 ? out : ir::Alu(ctx, Op::RECIPROCAL, {out});
}

// A product taken apart: the factors of its numerator (over) and denominator (under), and its sign.
struct Product {
  absl::InlinedVector<UOp, 8> over, under;
  bool negated = false;
};

// Takes a few levels apart; deeper products stay one factor.
Product ProductOf(UOp root) {
  constexpr size_t kMost = 12;
  Product out;
  absl::InlinedVector<std::pair<UOp, bool>, 12> stack = {{root, false}};
  for (size_t looked = 0; !stack.empty(); ++looked) {
    const auto [u, inverse] = stack.back();
    stack.pop_back();
    if (looked < kMost && u.Is(OpSet{Op::MUL, Op::FDIV})) {
      stack.emplace_back(u.src(1), inverse != u.Is(Op::FDIV));
      stack.emplace_back(u.src(0), inverse);  // the left one is next
    } else if (looked < kMost && u.Is(Op::RECIPROCAL)) {
      stack.emplace_back(u.src(0), !inverse);
    } else if (looked < kMost && u.Is(Op::NEG)) {
      stack.emplace_back(u.src(0), inverse);
      out.negated = !out.negated;
    } else {
      (inverse ? out.under : out.over).push_back(u);
    }
  }
  return out;
}

// 1 / (1 + 2^-x). Equal to e / (1 + e) with e = 2^x, but never infinity / infinity.
UOp StableSigmoid(UOpContext& ctx, UOp x) {
  const UOp e = ir::Alu(ctx, Op::EXP2, {ir::Alu(ctx, Op::NEG, {x})});
  return ir::Alu(ctx, Op::RECIPROCAL, {ir::Add(ctx, e, ctx.Float(e.dtype(), 1))});
}

// Rewrites a product with the factor e / (1 + e), e = 2^x, to use StableSigmoid; null if root is
// none. An example is the slope of a sigmoid, e / (1 + e)^2, with its factors in any order.
UOp WithSigmoid(UOpContext& ctx, UOp root) {
  Product p = ProductOf(root);
  for (auto e = p.over.begin(); e != p.over.end(); ++e) {
    if (!e->Is(Op::EXP2)) continue;
    const auto sum = std::find_if(p.under.begin(), p.under.end(), [&](UOp u) {
      return u.Is(Op::ADD) && u.src(0) == *e && u.src(1).IsConst(1);
    });
    if (sum == p.under.end()) continue;
    UOp out = StableSigmoid(ctx, e->src(0));
    p.over.erase(e);
    p.under.erase(sum);
    for (UOp u : p.over) out = ir::Mul(ctx, out, u);
    for (UOp u : p.under) out = ir::Mul(ctx, out, ir::Alu(ctx, Op::RECIPROCAL, {u}));
    return p.negated ? ir::Alu(ctx, Op::NEG, {out}) : out;
  }
  return UOp();
}

}  // namespace

const RuleSet& FastMathRules() {
  static const RuleSet rules = Built("fast_math", [](RuleSet& r) {
    constexpr Any<0> x;
    constexpr Any<1> y;
    constexpr Any<2> z;
    constexpr auto constant = Node(Op::CONST);

    r.Add("add_zero", x.Is(kFloats) + 0, x);
    r.Add("sub_zero", x.Is(kFloats) - 0, x);
    r.Add("mul_zero", x.Is(kFloats) * 0, 0);
    r.Add("sub_self", x.Is(kFloats) - x, 0);
    r.Add("fdiv_self", Node(Op::FDIV, x, x), 1);
    r.Add("fdiv_of_mul", Node(Op::FDIV, x * y, y), x);
    r.Add("mul_of_fdiv", Node(Op::FDIV, x, y) * y, x);
    r.Add("reciprocal_twice", Node(Op::RECIPROCAL, Node(Op::RECIPROCAL, x)), x);
    r.Add("common_factor", x.Is(kFloats) * y + x * z, x * (y + z));
    r.Add("common_factor_one", x.Is(kFloats) * y + x, [x, y](const auto& m) -> UOp {
      if (!m[y].Is(Op::CONST)) return UOp();
      return ir::Mul(m.ctx, m[x], m.ctx.Float(m.root().dtype(), m[y].const_float() + 1));
    });
    r.Add("exp", Node(Op::EXP, x), [x](const auto& m) -> UOp {
      if (ir::Bits(m.root().dtype()) < 32) return UOp();  // the product would have too few bits
      const UOp log2e = m.ctx.Float(m.root().dtype(), std::numbers::log2e);
      return ir::Alu(m.ctx, Op::EXP2, {ir::Mul(m.ctx, m[x], log2e)});
    });
    // e / (1 + e) with e = 2^x is infinity / infinity for large x; 1 / (1 + 2^-x) never is.
    r.Add("sigmoid", Node(Op::FDIV, Node(Op::EXP2, x), Node(Op::EXP2, x) + 1),
          [x](const auto& m) { return StableSigmoid(m.ctx, m[x]); });
    // The same inside of a product: e * (1 / (1 + e)) * y.
    r.Add("sigmoid_factor", Group(OpSet{Op::MUL, Op::FDIV}, x.Is(kFloats), y),
          [](const auto& m) { return WithSigmoid(m.ctx, m.root()); });
    // A positive constant factor moves out of a maximum.
    r.Add("max_factor", Node(Op::REDUCE, Is(x * y, kFloats), Rest()), [x, y](const auto& m) -> UOp {
      if (m.root().n_src() == 1 || m.root().reduce_op() != Op::MAX || !m[y].Is(Op::CONST))
        return UOp();
      if (!(m[y].const_float() > 0) || std::isinf(m[y].const_float())) return UOp();
      return ir::Mul(m.ctx, ir::ReduceRanges(m.ctx, Op::MAX, m[x], m.root().srcs().subspan(1)),
                     m[y]);
    });
    r.Add("factor", Node(Op::REDUCE, Group(OpSet{Op::MUL}, x.Is(kFloats), Rest()), Rest()),
          [](const auto& m) -> UOp { return FactorOut(m.ctx, m.root()); });
    // Constants combine.
    r.Add("add_add", (Is(x, kFloats) + y) + z, [x, y, z](const auto& m) -> UOp {
      if (!m[y].Is(Op::CONST) || !m[z].Is(Op::CONST)) return UOp();
      const double sum = m[y].const_float() + m[z].const_float();
      return ir::Add(m.ctx, m[x], m.ctx.Float(m.root().dtype(), sum));
    });
    r.Add("mul_mul", (Is(x, kFloats) * y) * z, [x, y, z](const auto& m) -> UOp {
      if (!m[y].Is(Op::CONST) || !m[z].Is(Op::CONST)) return UOp();
      const double product = m[y].const_float() * m[z].const_float();
      return ir::Mul(m.ctx, m[x], m.ctx.Float(m.root().dtype(), product));
    });
    r.Add("fdiv_constant", Node(Op::FDIV, x, y), [x, y](const auto& m) -> UOp {
      if (!m[y].Is(Op::CONST) || m[y].const_float() == 0) return UOp();
      return ir::Mul(m.ctx, m[x], m.ctx.Float(m.root().dtype(), 1 / m[y].const_float()));
    });
    r.Add("pow_constant", Node(Op::POW, x.Is(kFloats), y), [x, y](const auto& m) -> UOp {
      if (!m[y].Is(Op::CONST)) return UOp();
      return PowerOfHalves(m.ctx, m[x], m[y].const_float());
    });
    r.Add("pow_of_constant", Node(Op::POW, constant, x.Is(kFloats)), [x](const auto& m) -> UOp {
      const double base = m.root().src(0).const_float();
      if (!(base > 0) || std::isinf(base)) return UOp();
      return ir::Alu(m.ctx, Op::EXP2,
                     {ir::Mul(m.ctx, m[x], m.ctx.Float(m.root().dtype(), std::log2(base)))});
    });
  });
  return rules;
}

}  // namespace uopd::rules
