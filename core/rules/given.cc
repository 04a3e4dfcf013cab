// SPDX-License-Identifier: MIT
#include "core/rules/given.h"

#include <algorithm>
#include <array>

#include "absl/container/inlined_vector.h"
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

// An expression down to what is no index or bool arithmetic: its nodes, sources first.
class MathGraph {
 public:
  explicit MathGraph(UOp root) { Walk(root); }

  bool complete() const { return complete_; }  // false: there are too many nodes
  std::span<const UOp> nodes() const { return nodes_; }
  UOp root() const { return nodes_.back(); }
  static constexpr size_t kNowhere = UINT16_MAX;
  size_t IndexOf(UOp u) const {  // in nodes(), or kNowhere
    const uint16_t slot = slots_[SlotOf(u)];
    return slot == 0 ? kNowhere : seen_[slot - 1].index;
  }

  // What of the expression costs. Sums, signs, constant factors and negations count nothing: how
  // many of them are nodes depends on the order of operands, which is another one in another
  // context.
  int64_t Weight() const {
    if (!complete_) return INT64_MAX;
    int64_t w = 0;
    for (UOp u : nodes_) {
      if (u.Is(Op::CONST) || IsLinear(u) || MaybeNegated(u)) continue;
      w += u.Is(OpSet{Op::FLOORDIV, Op::FLOORMOD}) ? 5 : 1;
    }
    return w;
  }

  // A sum of its sources with constant factors.
  static bool IsLinear(UOp u) {
    return u.Is(OpSet{Op::NEG, Op::ADD, Op::SUB}) ||
           (u.Is(Op::MUL) && (u.src(0).Is(Op::CONST) || u.src(1).Is(Op::CONST)));
  }

 private:
  struct Seen {
    UOp node;
    uint16_t index;  // in nodes_; kOpen while its sources are being visited
  };
  static constexpr uint16_t kOpen = UINT16_MAX;

  void Walk(UOp root) {
    absl::InlinedVector<UOp, 32> stack = {root};
    while (!stack.empty()) {
      const UOp u = stack.back();
      uint16_t& slot = slots_[SlotOf(u)];
      if (slot == 0) {
        seen_.push_back({u, kOpen});
        slot = static_cast<uint16_t>(seen_.size());
        if (IsMath(u)) {
          for (size_t i = u.n_src(); i-- > 0;) {
            if (slots_[SlotOf(u.src(i))] == 0) stack.push_back(u.src(i));
          }
          if (seen_.size() > kMaxNodes) {
            complete_ = false;
            return;
          }
          continue;
        }
      }
      stack.pop_back();
      Seen& seen = seen_[slot - 1];
      if (seen.index != kOpen) continue;
      seen.index = static_cast<uint16_t>(nodes_.size());
      nodes_.push_back(u);
    }
  }
  // Its slot, or the free one where it belongs.
  size_t SlotOf(UOp u) const {
    size_t i = u.id() * 0x9E3779B1u >> (32 - kLogSlots);
    while (slots_[i] != 0 && seen_[slots_[i] - 1].node != u) i = (i + 1) % kSlots;
    return i;
  }

  static constexpr int kLogSlots = 10;
  static constexpr size_t kSlots = size_t{1} << kLogSlots;
  static_assert(kSlots > 5 * kMaxNodes, "each of them and up to three sources are remembered");
  std::array<uint16_t, kSlots> slots_{};  // by hash of the id: place in seen_, from 1; 0: free
  absl::InlinedVector<Seen, 32> seen_;
  absl::InlinedVector<UOp, 32> nodes_;
  bool complete_ = true;
};

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
        if (sum->terms.size() > 1) sums_.push_back({b->value, std::move(*sum), b->bounds});
      }
    }
  }

  UOp Simplify(UOp e) {
    if (contradiction_ || parts_.empty()) return UOp();
    const MathGraph graph(e);
    if (!graph.complete() || !Concerns(graph)) return UOp();
    const int64_t weight = graph.Weight();
    if (MayHelp(graph)) {
      if (const UOp out = Attempt(graph, weight, nullptr, UOp())) return out;
    }
    for (const KnownSum& s : sums_) {
      const UOp replaced = Replaced(graph, s);
      if (!replaced || (!s.bounds.IsPoint() && !Decides(graph, replaced))) continue;
      if (const UOp out = Attempt(graph, weight, &s, replaced)) return out;
    }
    return UOp();
  }

 private:
  struct KnownSum {
    UOp value;
    Sum sum;
    Bounds bounds;
  };
  struct Tight {
    UOp node;
    Bounds bounds;
  };

  void Tighten(UOp u, Bounds b) {
    if (u.Is(Op::CONST)) return;
    const Bounds own = ctx_.BoundsOf(u);
    Tight* tight = MaybeTight(u);
    Bounds& t = tight != nullptr ? tight->bounds : tight_.emplace_back(Tight{u, own}).bounds;
    t.min = std::max(t.min, b.min), t.max = std::min(t.max, b.max);
    if (!t.known()) contradiction_ = true;
    if (tight == nullptr && t.min == own.min && t.max == own.max) tight_.pop_back();
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

  bool Concerns(const MathGraph& graph) const {
    for (const Tight& t : tight_) {
      if (graph.IndexOf(t.node) != MathGraph::kNowhere) return true;
    }
    for (const Fact& f : parts_) {
      if (graph.IndexOf(f.condition) != MathGraph::kNowhere) return true;
    }
    return false;
  }

  // Whether something else than a sum is made of a node for which known(node) holds. Tighter bounds
  // of its terms change nothing in a sum, so long as they are no points.
  template <class F>
  static bool DecidesAny(const MathGraph& graph, F known) {
    absl::InlinedVector<bool, 64> depends(graph.nodes().size());
    for (size_t i = 0; i < depends.size(); ++i) {
      const UOp u = graph.nodes()[i];
      depends[i] = known(u);
      if (depends[i] || !IsMath(u)) continue;
      for (UOp s : u.srcs()) depends[i] |= depends[graph.IndexOf(s)];
      if (depends[i] && !(u.dtype() == Dtype::Index && MathGraph::IsLinear(u))) return true;
    }
    return false;
  }
  static bool Decides(const MathGraph& graph, UOp known) {
    return DecidesAny(graph, [&](UOp u) { return u == known; });
  }

  // Whether the facts and the tighter bounds can change the expression.
  bool MayHelp(const MathGraph& graph) {
    for (const Tight& t : tight_) {
      if (t.bounds.IsPoint() && graph.IndexOf(t.node) != MathGraph::kNowhere) return true;
    }
    for (const Fact& f : parts_) {
      if (graph.IndexOf(f.condition) != MathGraph::kNowhere) return true;
    }
    return DecidesAny(graph, [&](UOp u) { return MaybeTight(u) != nullptr; });
  }

  // The term of the sum that can be had from the sum and its other terms, and is in the graph; the
  // last one if there are several, null if there is none.
  static UOp Replaced(const MathGraph& graph, const KnownSum& known) {
    UOp out;
    for (const Term& t : known.sum.terms) {
      if (std::abs(t.factor) == 1 && graph.IndexOf(t.value) != MathGraph::kNowhere) out = t.value;
    }
    return out;
  }

  // The expression in a context of its own, simplified there; null unless what came of it weighs
  // less. With `known`, the term `replaced` of it is replaced by a variable for the whole sum less
  // the other terms.
  UOp Attempt(const MathGraph& graph, int64_t weight, const KnownSum* known, UOp replaced) {
    UOpContext scratch;
    absl::InlinedVector<std::pair<UOp, UOp>, 16> variables;  // here, there
    bool plain = true;                                       // variables stand for single nodes
    auto variable = [&](UOp u, Bounds b) {
      const int64_t ends[] = {static_cast<int64_t>(std::max<Int128>(b.min, INT64_MIN)),
                              static_cast<int64_t>(std::min<Int128>(b.max, INT64_MAX))};
      const UOp v = scratch.Make(Op::DEFINE_VAR, u.dtype(), std::span<const UOp>{},
                                 scratch.Data(ends, Cat("v", variables.size())));
      variables.emplace_back(u, v);
      plain &= !IsMath(u);
      return v;
    };
    absl::InlinedVector<UOp, 64> there(graph.nodes().size());
    auto leaf = [&](UOp u) {
      const size_t i = graph.IndexOf(u);
      if (i != MathGraph::kNowhere && there[i]) return there[i];
      if (i == MathGraph::kNowhere) {
        for (const auto& [here, v] : variables) {
          if (here == u) return v;
        }
      }
      const Tight* t = MaybeTight(u);
      const UOp out = u.Is(Op::CONST) ? scratch.Int(u.dtype(), u.const_int())
                                      : variable(u, t != nullptr ? t->bounds : ctx_.BoundsOf(u));
      if (i != MathGraph::kNowhere) there[i] = out;
      return out;
    };
    UOp whole;
    if (known != nullptr) {
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
      there[graph.IndexOf(replaced)] = ir::Mul(scratch, value, scratch.Idx(sign));
    }
    ir::SymbolicDims src;
    for (size_t i = 0; i < there.size(); ++i) {
      const UOp u = graph.nodes()[i];
      if (there[i]) continue;
      if (const Fact* f = FactOf(u)) {
        there[i] = scratch.Bool(f->holds);
      } else if (!IsMath(u) || MaybeTight(u) != nullptr) {
        leaf(u);
      } else {
        src.clear();
        for (UOp s : u.srcs()) src.push_back(there[graph.IndexOf(s)]);
        there[i] = scratch.Make(u.op(), u.dtype(), src);
      }
    }
    rewrite::Rewriter rewriter(scratch, PlainRules(), {.max_steps = 20000});
    UOp out = rewriter.Run(there.back());
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
    // A variable weighs as much as a node that is no arithmetic.
    if (plain && MathGraph(out).Weight() >= weight) return UOp();
    ir::Substitution here;
    for (const auto& [u, v] : variables) here[v.id()] = u;
    out = ir::CopyTo(scratch, out, ctx_, here);
    const MathGraph made(out);
    if (made.Weight() >= weight) return UOp();
    // Here less is known of its parts than there.
    for (UOp u : made.nodes()) {
      if (u.dtype() == Dtype::Index && !FitsIndex(ctx_, u)) return UOp();
    }
    return out;
  }

  const Fact* FactOf(UOp u) const {
    for (const Fact& f : parts_) {
      if (f.condition == u) return &f;
    }
    return nullptr;
  }
  Tight* MaybeTight(UOp u) {
    for (Tight& t : tight_) {
      if (t.node == u) return &t;
    }
    return nullptr;
  }

  UOpContext& ctx_;
  const absl::InlinedVector<Fact, 8> parts_;
  absl::InlinedVector<Tight, 8> tight_;  // only what is tighter than BoundsOf
  absl::InlinedVector<KnownSum, 2> sums_;
  bool contradiction_ = false;
};

}  // namespace

UOp SimplifyGiven(UOpContext& ctx, UOp e, UOp condition, bool holds) {
  return IsMath(e) ? Given(ctx, condition, holds).Simplify(e) : UOp();
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
