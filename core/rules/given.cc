// SPDX-License-Identifier: MIT
#include "core/rules/given.h"

#include <algorithm>

#include "absl/container/flat_hash_map.h"
#include "core/base/text.h"
#include "core/ir/build.h"
#include "core/ir/graph.h"
#include "core/rewrite/rewriter.h"
#include "core/rules/compare.h"
#include "core/rules/rules.h"
#include "core/rules/terms.h"

namespace uopd::rules {
namespace {

using ir::Bounds;
using ir::Dtype;
using ir::Int128;
using ir::Op;
using ir::OpSet;
using ir::UOp;
using ir::UOpContext;

constexpr size_t kMaxNodes = 200;
constexpr size_t kMaxConjuncts = 16;

struct Fact {
  UOp condition;
  bool holds;
};

// What a condition says: each part holds. Parts beyond the limit are forgotten, which is safe.
absl::InlinedVector<Fact, 8> Parts(UOp condition, bool holds) {
  absl::InlinedVector<Fact, 8> out, stack = {{condition, holds}};
  while (!stack.empty() && out.size() < kMaxConjuncts) {
    const Fact f = stack.back();
    stack.pop_back();
    if (const UOp inner = MaybeNegated(f.condition)) {
      stack.push_back({inner, !f.holds});
    } else if (f.condition.Is(f.holds ? Op::AND : Op::OR) && f.condition.dtype() == Dtype::Bool) {
      stack.push_back({f.condition.src(1), f.holds});
      stack.push_back({f.condition.src(0), f.holds});
    } else if (!f.condition.Is(Op::CONST)) {
      out.push_back(f);
    }
  }
  return out;
}

bool IsMath(UOp u) {
  return u.Is(ir::kElementwiseOps) && (u.dtype() == Dtype::Index || u.dtype() == Dtype::Bool) &&
         !u.Is(Op::CAST) && std::all_of(u.srcs().begin(), u.srcs().end(), [](UOp s) {
           return s.dtype() == Dtype::Index || s.dtype() == Dtype::Bool;
         });
}

// The nodes of an expression, sources first, down to what is no index or bool arithmetic; nullopt
// if there are too many.
std::optional<std::vector<UOp>> MathNodes(UOp root) {
  std::vector<UOp> out;
  absl::flat_hash_map<uint32_t, bool> done;  // false: its sources are on the stack
  std::vector<UOp> stack = {root};
  while (!stack.empty()) {
    const UOp u = stack.back();
    auto [it, fresh] = done.try_emplace(u.id(), false);
    if (fresh && IsMath(u)) {
      for (size_t i = u.n_src(); i-- > 0;) {
        if (!done.contains(u.src(i).id())) stack.push_back(u.src(i));
      }
      if (done.size() > kMaxNodes) return std::nullopt;
      continue;
    }
    stack.pop_back();
    if (it->second) continue;
    it->second = true;
    out.push_back(u);
  }
  return out;
}

// What of an expression costs. Sums, signs, constant factors and negations count nothing: how many
// of them are nodes depends on the order of operands, which is another one in another context.
int64_t Weight(UOp root) {
  const auto nodes = MathNodes(root);
  if (!nodes) return INT64_MAX;
  int64_t w = 0;
  for (UOp u : *nodes) {
    const bool scaled = u.Is(Op::MUL) && (u.src(0).Is(Op::CONST) || u.src(1).Is(Op::CONST));
    if (u.Is(OpSet{Op::CONST, Op::NEG, Op::ADD, Op::SUB}) || scaled || MaybeNegated(u)) continue;
    w += u.Is(OpSet{Op::FLOORDIV, Op::FLOORMOD}) ? 5 : 1;
  }
  return w;
}

class Given {
 public:
  Given(UOpContext& ctx, UOp condition, bool holds) : ctx_(ctx), parts_(Parts(condition, holds)) {
    for (const Fact& f : parts_) {
      const auto b = AsBound(ctx, f.condition, f.holds);
      if (!b) continue;
      if (!b->bounds.known()) contradiction_ = true;
      Tighten(b->value, b->bounds);
      if (auto sum = ToSum(ctx, b->value)) {
        for (size_t i = 0; i < sum->terms.size(); ++i) TightenTerm(*sum, i, b->bounds);
        if (sum->terms.size() > 1) sums_.push_back({b->value, *sum, b->bounds});
      }
    }
  }

  UOp Simplify(UOp e) {
    if (contradiction_ || (tight_.empty() && parts_.empty())) return UOp();
    const auto nodes = MathNodes(e);
    if (!nodes || nodes->size() == 1) return UOp();
    if (!Concerns(*nodes)) return UOp();
    const int64_t weight = Weight(e);
    const UOp plain = Attempt(*nodes, nullptr);
    if (plain && Weight(plain) < weight) return plain;
    for (const KnownSum& s : sums_) {
      const UOp out = Attempt(*nodes, &s);
      if (out && Weight(out) < weight) return out;
    }
    return UOp();
  }

 private:
  struct KnownSum {
    UOp value;
    Sum sum;
    Bounds bounds;
  };

  void Tighten(UOp u, Bounds b) {
    if (u.Is(Op::CONST)) return;
    const Bounds own = ctx_.BoundsOf(u);
    auto [it, fresh] = tight_.try_emplace(u.id(), own);
    it->second.min = std::max(it->second.min, b.min),
    it->second.max = std::min(it->second.max, b.max);
    if (!it->second.known()) contradiction_ = true;
    if (fresh && it->second.min == own.min && it->second.max == own.max) tight_.erase(it);
  }

  // From the bounds of a sum and of its other terms those of one term.
  void TightenTerm(const Sum& sum, size_t i, Bounds all) {
    Sum others = sum;
    others.terms.erase(others.terms.begin() + static_cast<ptrdiff_t>(i));
    const Bounds o = BoundsOf(ctx_, others);
    const Int128 lo = all.min - o.max, hi = all.max - o.min, f = sum.terms[i].factor;
    auto floor = [](Int128 a, Int128 b) { return a / b - ((a % b != 0) && ((a < 0) != (b < 0))); };
    auto ceil = [&](Int128 a, Int128 b) { return -floor(-a, b); };
    Tighten(sum.terms[i].value,
            f > 0 ? Bounds{ceil(lo, f), floor(hi, f)} : Bounds{ceil(hi, f), floor(lo, f)});
  }

  bool Concerns(const std::vector<UOp>& nodes) const {
    for (UOp u : nodes) {
      if (tight_.contains(u.id())) return true;
      for (const Fact& f : parts_) {
        if (f.condition == u) return true;
      }
    }
    return false;
  }

  // e in a context of its own, simplified there; null if nothing came of it. With `known`, one of
  // its terms is replaced by a variable for the whole sum less the other terms.
  UOp Attempt(const std::vector<UOp>& nodes, const KnownSum* known) {
    UOpContext scratch;
    std::vector<std::pair<UOp, UOp>> variables;  // here, there
    absl::flat_hash_map<uint32_t, UOp> there;
    auto variable = [&](UOp u, Bounds b) {
      const int64_t ends[] = {static_cast<int64_t>(std::max<Int128>(b.min, INT64_MIN)),
                              static_cast<int64_t>(std::min<Int128>(b.max, INT64_MAX))};
      const UOp v = scratch.Make(Op::DEFINE_VAR, u.dtype(), std::span<const UOp>{},
                                 scratch.Data(ends, Cat("v", variables.size())));
      variables.emplace_back(u, v);
      return v;
    };
    auto leaf = [&](UOp u) {
      if (auto it = there.find(u.id()); it != there.end()) return it->second;
      auto it = tight_.find(u.id());
      return there[u.id()] = u.Is(Op::CONST)
                                 ? scratch.Int(u.dtype(), u.const_int())
                                 : variable(u, it != tight_.end() ? it->second : ctx_.BoundsOf(u));
    };
    UOp whole, replaced;
    if (known != nullptr) {
      for (const Term& t : known->sum.terms) {
        if (std::abs(t.factor) == 1 &&
            std::find(nodes.begin(), nodes.end(), t.value) != nodes.end())
          replaced = t.value;
      }
      if (!replaced) return UOp();
      whole = variable(known->value, known->bounds);
      UOp value = whole;
      int64_t sign = 1;
      for (const Term& t : known->sum.terms) {
        if (t.value == replaced)
          sign = t.factor;
        else
          value = ir::Sub(scratch, value, ir::Mul(scratch, leaf(t.value), scratch.Idx(t.factor)));
      }
      value = ir::Sub(scratch, value, scratch.Idx(known->sum.constant));
      there[replaced.id()] = ir::Mul(scratch, value, scratch.Idx(sign));
    }
    ir::SymbolicDims src;
    for (UOp u : nodes) {
      if (there.contains(u.id())) continue;
      if (const Fact* f = FactOf(u)) {
        there[u.id()] = scratch.Bool(f->holds);
      } else if (!IsMath(u) || tight_.contains(u.id())) {
        leaf(u);
      } else {
        src.clear();
        for (UOp s : u.srcs()) src.push_back(there.at(s.id()));
        there[u.id()] = scratch.Make(u.op(), u.dtype(), src);
      }
    }
    rewrite::Rewriter rewriter(scratch, PlainRules(), {.max_steps = 20000});
    UOp out = rewriter.Run(there.at(nodes.back().id()));
    if (whole) {  // the sum in terms of its parts again
      ir::Substitution back;
      const UOp v = variable(replaced, ctx_.BoundsOf(replaced));
      UOp total;
      for (const Term& t : known->sum.terms) {
        const UOp value = t.value == replaced ? v : leaf(t.value);
        const UOp term = ir::Mul(scratch, value, scratch.Idx(t.factor));
        total = total ? ir::Add(scratch, total, term) : term;
      }
      back[whole.id()] = ir::Add(scratch, total, scratch.Idx(known->sum.constant));
      out = rewriter.Run(ir::Substitute(scratch, out, back));
    }
    if (rewriter.diverged()) return UOp();
    absl::flat_hash_map<uint32_t, UOp> here;
    for (const auto& [u, v] : variables) here[v.id()] = u;
    out = ir::CopyTo(scratch, out, ctx_, here);
    // Here less is known of its parts than there.
    const auto made = MathNodes(out);
    const bool fits = made && std::all_of(made->begin(), made->end(), [&](UOp u) {
                        return u.dtype() != Dtype::Index || FitsIndex(ctx_, u);
                      });
    return fits ? out : UOp();
  }

  const Fact* FactOf(UOp u) const {
    for (const Fact& f : parts_) {
      if (f.condition == u) return &f;
    }
    return nullptr;
  }

  UOpContext& ctx_;
  const absl::InlinedVector<Fact, 8> parts_;
  absl::flat_hash_map<uint32_t, Bounds> tight_;  // only what is tighter than BoundsOf
  std::vector<KnownSum> sums_;
  bool contradiction_ = false;
};

}  // namespace

UOp SimplifyGiven(UOpContext& ctx, UOp e, UOp condition, bool holds) {
  return Given(ctx, condition, holds).Simplify(e);
}

const rewrite::RuleSet& GivenRules() {
  using namespace rewrite;  // NOLINT: the vocabulary of rules
  static const RuleSet rules = Built("given", [](RuleSet& r) {
    constexpr Any<0> p;
    constexpr Any<1> x;
    constexpr Any<2> y;

    // Each part of a condition may take the others for granted.
    r.Add("and", p.Is(kBools) & x, [p, x](const auto& m) -> UOp {
      if (const UOp out = SimplifyGiven(m.ctx, m[x], m[p])) return ir::And(m.ctx, m[p], out);
      return UOp();
    });
    r.Add("or", p.Is(kBools) | x, [p, x](const auto& m) -> UOp {
      const UOp out = SimplifyGiven(m.ctx, m[x], m[p], false);
      return out ? ir::Alu(m.ctx, Op::OR, {m[p], out}) : UOp();
    });
    r.Add("where", Where(p, x.Is(kIndexOnly), y), [p, x, y](const auto& m) -> UOp {
      const UOp a = SimplifyGiven(m.ctx, m[x], m[p]), b = SimplifyGiven(m.ctx, m[y], m[p], false);
      if (!a && !b) return UOp();
      const UOp out = ir::Where(m.ctx, m[p], a ? a : m[x], b ? b : m[y]);
      // What the condition says may be more than BoundsOf finds in it.
      return m.ctx.BoundsOf(out).Within(m.ctx.BoundsOf(m.root())) ? out : UOp();
    });
    // Where its gate is false an INDEX is not looked at.
    r.Add("index", Node(Op::INDEX, x, y.Is(kIndexOnly), p), [p, x, y](const auto& m) -> UOp {
      const UOp out = SimplifyGiven(m.ctx, m[y], m[p]);
      return out ? m.ctx.Make(Op::INDEX, m.root().dtype(), {m[x], out, m[p]}, m.root().arg())
                 : UOp();
    });
  });
  return rules;
}

}  // namespace uopd::rules
