// SPDX-License-Identifier: MIT
#include "core/rules/given.h"

#include <algorithm>
#include <utility>

#include "absl/container/inlined_vector.h"
#include "core/base/text.h"
#include "core/ir/build.h"
#include "core/ir/graph.h"
#include "core/rewrite/rewriter.h"
#include "core/rules/compare.h"
#include "core/rules/foresight.h"
#include "core/rules/given_trial.h"
#include "core/rules/math_graph.h"
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

constexpr size_t kMaxConjuncts = 16;
constexpr size_t kMaxCases = 4;

// The conjuncts of a condition. Conjuncts beyond the limit are ignored, which is safe.
absl::InlinedVector<Fact, 8> Parts(UOp condition, bool holds) {
  absl::InlinedVector<Fact, 8> out;
  ForEachPart(condition, holds, [&](UOp c, bool true_here) {
    if (!c.Is(Op::CONST)) out.push_back({c, true_here});
    return out.size() < kMaxConjuncts;
  });
  return out;
}

// The subjects of a condition: the nodes below its logic, comparisons and sums. If none of them
// occurs in an expression, the condition cannot simplify it.
class Subjects {
 public:
  explicit Subjects(UOp condition) {
    absl::InlinedVector<UOp, 16> stack = {condition};
    for (size_t looked = 0; !stack.empty() && !all_; ++looked) {
      const UOp u = stack.back();
      stack.pop_back();
      if (IsLinear(u) || (u.dtype() == Dtype::Bool && IsMath(u))) {
        for (UOp s : u.srcs()) {
          if (!s.Is(Op::CONST)) stack.push_back(s);
        }
      } else if (!Has(u)) {
        nodes_.push_back(u);
        among_ |= Bit(u);
      }
      all_ = looked >= kMostNodes;
    }
  }

  // False if no subject occurs in the arithmetic of e or directly below it. `linear` becomes true
  // only if all arithmetic of e is linear.
  bool MayBeIn(UOp e) const {
    bool linear;
    return MayBeIn(e, linear);
  }
  bool MayBeIn(UOp e, bool& linear) const {
    bool found = all_;
    linear = true;
    absl::InlinedVector<UOp, 16> stack = {e};
    for (size_t looked = 0; !stack.empty() && (linear || !found); ++looked) {
      const UOp u = stack.back();
      stack.pop_back();
      found |= Has(u);
      if (!IsLinear(u)) {
        if (!IsMath(u)) continue;
        linear = false;
      }
      for (UOp s : u.srcs()) {
        if (!s.Is(Op::CONST)) stack.push_back(s);
      }
      if (looked >= kMostNodes) {
        linear = false;
        found = true;
      }
    }
    return found;
  }

 private:
  static constexpr size_t kMostNodes = 64;
  static uint64_t Bit(UOp u) { return uint64_t{1} << (u.id() & 63); }
  bool Has(UOp u) const {
    return (among_ & Bit(u)) != 0 && std::find(nodes_.begin(), nodes_.end(), u) != nodes_.end();
  }

  absl::InlinedVector<UOp, 8> nodes_;
  uint64_t among_ = 0;  // Bloom filter of nodes_
  bool all_ = false;    // there are too many nodes: every answer is "may be"
};

// The facts that a condition implies, and the attempts to simplify an expression with them.
class Given {
 public:
  Given(UOpContext& ctx, UOp condition, bool holds) : ctx_(ctx), parts_(Parts(condition, holds)) {
    for (const Fact& f : parts_) {
      if (const auto b = AsBound(ctx, f.condition, f.holds)) {
        if (!b->bounds.known()) contradiction_ = true;
        Tighten(b->value, b->bounds);
        if (auto sum = ToSum(ctx, b->value)) Learn(b->value, std::move(*sum), b->bounds);
      } else if (f.condition.Is(f.holds ? Op::CMPEQ : Op::CMPNE) &&
                 f.condition.src(0).dtype() == Dtype::Index) {
        const UOp x = f.condition.src(0), y = f.condition.src(1);
        if (auto sum = ToDifference(ctx, x, y)) Learn(ir::Sub(ctx, x, y), std::move(*sum), {0, 0});
      }
    }
  }

  // `maybe_subjects`: of the condition; null: make all trials. `linear`: as MayBeIn found it for e.
  UOp Simplify(UOp e, const Subjects* maybe_subjects, bool linear) {
    if (contradiction_ || parts_.empty()) return UOp();
    const bool foresee = maybe_subjects != nullptr;
    // A linear expression stays as it is, unless the value of a term is known.
    if (foresee && !KnowsPoints() && (linear || !MayDecide(e, *maybe_subjects))) return UOp();
    const MathGraph graph(e);
    if (!graph.complete() || (foresee && !Concerns(graph))) return UOp();
    if (!foresee || MayHelp(graph)) {
      if (const UOp out = Attempt(graph, nullptr)) return out;
    }
    for (BoundedSum& s : sums_) {
      s.replaced = Replaced(graph, s.sum);
      if (!s.replaced) continue;
      if (foresee && !s.bounds.IsPoint() && !MaySimplify(ctx_, graph, tight_, &s)) continue;
      if (const UOp out = Attempt(graph, &s)) return out;
    }
    for (const BoundedSum& s : sums_) {
      for (bool least : {true, false}) {
        if (const UOp out = AttemptCases(graph, s, least, foresee)) return out;
      }
    }
    return UOp();
  }

 private:
  // Intersects the bounds of u with b.
  void Tighten(UOp u, Bounds b) {
    if (u.Is(Op::CONST)) return;
    const Bounds own = ctx_.BoundsOf(u);
    BoundedNode* tight = MaybeTight(u);
    Bounds& t = tight != nullptr ? tight->bounds : tight_.emplace_back(BoundedNode{u, own}).bounds;
    t.min = std::max(t.min, b.min);
    t.max = std::min(t.max, b.max);
    if (!t.known()) contradiction_ = true;
    if (tight == nullptr && t.min == own.min && t.max == own.max) tight_.pop_back();
  }

  // Records that `value`, which equals `sum`, lies in `bounds`.
  void Learn(UOp value, Sum sum, Bounds bounds) {
    TightenTerms(sum, bounds);
    if (sum.terms.size() > 1) sums_.push_back({value, std::move(sum), bounds, UOp()});
  }

  // Bounds each term by the bounds of the sum and of the other terms.
  void TightenTerms(const Sum& sum, Bounds all) {
    // Nothing to do if the sum is the term itself.
    if (sum.terms.size() == 1 && sum.terms[0].factor == 1 && sum.constant == 0) return;
    absl::InlinedVector<Bounds, 6> terms;
    Bounds total = {sum.constant, sum.constant};
    for (const Term& t : sum.terms) {
      terms.push_back(Scaled(ctx_.BoundsOf(t.value), t.factor));
      total.min += terms.back().min;
      total.max += terms.back().max;
    }
    for (size_t i = 0; i < terms.size(); ++i) {
      const Bounds here = {all.min - (total.max - terms[i].max),
                           all.max - (total.min - terms[i].min)};
      const int64_t f = sum.terms[i].factor;
      Tighten(sum.terms[i].value, f > 0 ? Bounds{CeilDiv(here.min, f), FloorDiv(here.max, f)}
                                        : Bounds{CeilDiv(-here.max, -f), FloorDiv(-here.min, -f)});
    }
  }

  // Whether the value of some node or sum is known exactly.
  bool KnowsPoints() const {
    auto point = [](const auto& t) { return t.bounds.IsPoint(); };
    return std::any_of(tight_.begin(), tight_.end(), point) ||
           std::any_of(sums_.begin(), sums_.end(), point);
  }

  // A quick form of MaySimplify for logic over comparisons with constants: false if the known
  // bounds decide none of the comparisons. REQUIRES: !KnowsPoints().
  bool MayDecide(UOp e, const Subjects& subjects) {
    absl::InlinedVector<UOp, 8> stack = {e};
    while (!stack.empty()) {
      const UOp u = stack.back();
      stack.pop_back();
      if (FactOf(u) != nullptr) return true;
      if (const UOp inner = MaybeNegated(u)) {
        stack.push_back(inner);
      } else if (u.Is(OpSet{Op::AND, Op::OR}) && u.dtype() == Dtype::Bool) {
        stack.push_back(u.src(0));
        stack.push_back(u.src(1));
      } else if (const BoundedNode* t = ComparedWithConstant(u) ? MaybeTight(u.src(0)) : nullptr) {
        // More than an interval is known of a term of a bounded sum.
        for (const BoundedSum& s : sums_) {
          for (const Term& term : s.sum.terms) {
            if (term.value == t->node) return true;
          }
        }
        const Int128 c = u.src(1).const_int(), min = t->bounds.min, max = t->bounds.max;
        if (max < c || min > c || (u.Is(Op::CMPLT) && min == c)) return true;
      } else if (subjects.MayBeIn(u)) {
        return true;
      }
    }
    return false;
  }
  static bool ComparedWithConstant(UOp u) {
    return u.Is(ir::kComparisonOps) && u.src(0).dtype() == Dtype::Index && u.src(1).Is(Op::CONST);
  }

  // Whether some fact is about a node of the graph.
  bool Concerns(const MathGraph& graph) const {
    for (const BoundedNode& t : tight_) {
      if (graph.IndexOf(t.node) != MathGraph::kNowhere) return true;
    }
    for (const Fact& f : parts_) {
      if (graph.IndexOf(f.condition) != MathGraph::kNowhere) return true;
    }
    return std::any_of(sums_.begin(), sums_.end(), [&](const BoundedSum& s) {
      return Replaced(graph, s.sum) || HasAllTerms(graph, s.sum);
    });
  }

  // Whether a trial with the facts and the tighter bounds may change the expression.
  bool MayHelp(const MathGraph& graph) {
    for (const BoundedNode& t : tight_) {
      if (t.bounds.IsPoint() && graph.IndexOf(t.node) != MathGraph::kNowhere) return true;
    }
    for (const Fact& f : parts_) {
      if (graph.IndexOf(f.condition) != MathGraph::kNowhere) return true;
    }
    return MaySimplify(ctx_, graph, tight_, nullptr);
  }

  static bool HasAllTerms(const MathGraph& graph, const Sum& sum) {
    return std::all_of(sum.terms.begin(), sum.terms.end(), [&](const Term& t) {
      return graph.IndexOf(t.value) != MathGraph::kNowhere;
    });
  }
  // The last term of the sum with factor 1 or -1 that occurs in the graph; null if there is none.
  static UOp Replaced(const MathGraph& graph, const Sum& sum) {
    // Refuse a sum with a cast of a bool that does not occur in the expression. A comparison of
    // that cast simplifies to the bool, possibly to the very condition that is being simplified.
    for (const Term& t : sum.terms) {
      if (t.value.Is(Op::CAST) && t.value.src(0).dtype() == Dtype::Bool &&
          graph.IndexOf(t.value) == MathGraph::kNowhere)
        return UOp();
    }
    UOp out;
    for (const Term& t : sum.terms) {
      if (std::abs(t.factor) == 1 && graph.IndexOf(t.value) != MathGraph::kNowhere) out = t.value;
    }
    return out;
  }

  // Case distinction for a sum that cannot take the least (greatest, if !least) value that its
  // terms allow: at least one term is not at its own end. The common result of all cases, or null.
  UOp AttemptCases(const MathGraph& graph, const BoundedSum& s, bool least, bool foresee) {
    const auto& terms = s.sum.terms;
    if (terms.size() > kMaxCases || !HasAllTerms(graph, s.sum)) return UOp();
    const auto bounds = [&](UOp u) {
      const BoundedNode* t = MaybeTight(u);
      return t != nullptr ? t->bounds : ctx_.BoundsOf(u);
    };
    const Bounds now = BoundsOf(bounds, s.sum);
    if (least ? s.bounds.min <= now.min : s.bounds.max >= now.max) return UOp();
    const auto tight = tight_;
    auto in_every_case = [&](auto check) {
      bool all = true;
      for (size_t i = 0; i < terms.size() && all; ++i) {
        Bounds b = bounds(terms[i].value);
        if ((terms[i].factor > 0) == least)
          ++b.min;
        else
          --b.max;
        if (!b.known()) continue;  // this case is impossible
        Tighten(terms[i].value, b);
        all = check(b);
        tight_ = tight;
      }
      return all;
    };
    auto may_help = [&](Bounds b) {
      return b.IsPoint() || MaySimplify(ctx_, graph, tight_, nullptr);
    };
    if (foresee && !in_every_case(may_help)) return UOp();
    UOp out;
    const bool same = in_every_case([&](Bounds) {
      const UOp here = Attempt(graph, nullptr), before = std::exchange(out, here);
      return here && (!before || before == here);
    });
    return same ? out : UOp();
  }

  UOp Attempt(const MathGraph& graph, const BoundedSum* known) {
    return Trial(ctx_, graph, parts_, tight_).Run(known);
  }

  const Fact* FactOf(UOp u) const { return MaybeFactOf(parts_, u); }
  BoundedNode* MaybeTight(UOp u) {
    for (BoundedNode& t : tight_) {
      if (t.node == u) return &t;
    }
    return nullptr;
  }

  UOpContext& ctx_;
  const absl::InlinedVector<Fact, 8> parts_;
  absl::InlinedVector<BoundedNode, 8> tight_;  // only what is tighter than BoundsOf
  absl::InlinedVector<BoundedSum, 2> sums_;
  bool contradiction_ = false;
};

}  // namespace

UOp SimplifyGiven(UOpContext& ctx, UOp e, UOp condition, bool holds, Foresee foresee) {
  if (!IsMath(e)) return UOp();
  if (foresee == Foresee::kNo) return Given(ctx, condition, holds).Simplify(e, nullptr, false);
  const Subjects subjects(condition);
  bool linear;
  if (!subjects.MayBeIn(e, linear)) return UOp();
  return Given(ctx, condition, holds).Simplify(e, &subjects, linear);
}

const rewrite::RuleSet& GivenRules() {
  using namespace rewrite;  // NOLINT: the vocabulary of rules
  static const RuleSet rules = Built("given", [](RuleSet& r) {
    constexpr Any<0> p;
    constexpr Any<1> x;
    constexpr Any<2> y;

    // Each operand of an AND may assume that the other one holds; of an OR, that it fails.
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
      // The new branches may be valid only under facts that BoundsOf does not see. Refuse a result
      // with wider bounds.
      return m.ctx.BoundsOf(out).Within(m.ctx.BoundsOf(m.root())) ? out : UOp();
    });
    // The index of an INDEX matters only if the gate holds.
    r.Add("index", Node(Op::INDEX, x, y.Is(kIndexOnly), p), [p, x, y](const auto& m) -> UOp {
      const UOp out = SimplifyGiven(m.ctx, m[y], m[p]);
      return out ? m.ctx.Make(Op::INDEX, m.root().dtype(), {m[x], out, m[p]}, m.root().arg())
                 : UOp();
    });
  });
  return rules;
}

}  // namespace uopd::rules
