// SPDX-License-Identifier: MIT
// The test walks the nodes above the changed ones:
//   - a sum with changed terms stays a sum;
//   - a comparison, quotient or remainder simplifies only if the new bounds of its sum allow it
//     (SimplifiesCompare, SimplifiesDivMod). Otherwise the bounds of a comparison or remainder do
//     not change, and a quotient gets tighter bounds;
//   - for any other op the answer is yes.
#include "core/rules/foresight.h"

#include <algorithm>
#include <utility>

#include "core/rules/compare.h"
#include "core/rules/divmod.h"

namespace uopd::rules {
namespace {

using ir::Bounds;
using ir::Dtype;
using ir::Op;
using ir::OpSet;
using ir::UOp;
using ir::UOpContext;

class Foresight {
 public:
  Foresight(UOpContext& ctx, const MathGraph& graph, std::span<const BoundedNode> tight,
            const BoundedSum* maybe_sum)
      : ctx_(ctx), graph_(graph), tight_(tight), sum_(maybe_sum), differs_(graph.nodes().size()) {
    for (const BoundedNode& t : tight) Mark(t.node);
    if (maybe_sum != nullptr) Mark(maybe_sum->replaced);
  }

  bool MayChange() {
    for (size_t i = 0; i < differs_.size(); ++i) {
      if (differs_[i]) continue;
      bool concerned = false;
      for (uint16_t s : graph_.Sources(i)) concerned |= differs_[s];
      if (!concerned) continue;
      const UOp u = graph_.nodes()[i];
      if (IsLinear(u)) {
        differs_[i] = true;
      } else if (u.Is(ir::kComparisonOps) && u.src(0).dtype() == Dtype::Index) {
        Sum sum;
        if (!Add(u.src(0), 1, sum) || !Add(u.src(1), -1, sum) || !Tidy(sum)) return true;
        if (SimplifiesCompare(term_bounds_, u.op(), std::move(sum))) return true;
      } else if (u.Is(OpSet{Op::FLOORDIV, Op::FLOORMOD}) && u.dtype() == Dtype::Index &&
                 u.src(1).Is(Op::CONST) && u.src(1).const_int() > 0) {
        const int64_t c = u.src(1).const_int();
        Sum sum;
        if (!Add(u.src(0), 1, sum) || !Tidy(sum)) return true;
        if (SimplifiesDivMod(term_bounds_, sum, c)) return true;
        if (u.Is(Op::FLOORMOD)) continue;
        const Bounds b = BoundsOf(term_bounds_, sum);
        quotients_.push_back({u, {FloorDiv(b.min, c), FloorDiv(b.max, c)}});
        differs_[i] = true;
      } else {
        return true;
      }
    }
    return false;
  }

 private:
  void Mark(UOp u) {
    if (const size_t i = graph_.IndexOf(u); i != MathGraph::kNowhere) differs_[i] = true;
  }
  const BoundedNode* MaybeTight(UOp u) const {
    for (const BoundedNode& t : tight_) {
      if (t.node == u) return &t;
    }
    return nullptr;
  }
  bool IsReplaced(UOp u) const { return sum_ != nullptr && u == sum_->replaced; }

  // The bounds of the value of a term. A null value stands for the variable that replaces sum_.
  Bounds BoundsOfTerm(UOp u) {
    if (!u) return sum_->bounds;
    if (const BoundedNode* t = MaybeTight(u)) return t->bounds;
    for (const BoundedNode& q : quotients_) {
      if (q.node == u) return q.bounds;
    }
    return ctx_.BoundsOf(u);
  }

  // sum += factor * value. This and the functions below return false if a number leaves 64 bits.
  static bool AddTerm(UOp value, int64_t factor, Sum& sum) {
    for (Term& t : sum.terms) {
      if (t.value == value) return !__builtin_add_overflow(t.factor, factor, &t.factor);
    }
    sum.terms.push_back({value, factor});
    return true;
  }
  static bool AddConstant(int64_t value, int64_t factor, Sum& sum) {
    int64_t product;
    return !__builtin_mul_overflow(value, factor, &product) &&
           !__builtin_add_overflow(sum.constant, product, &sum.constant);
  }
  bool AddReplaced(int64_t factor, Sum& sum) const {
    const auto& terms = sum_->sum.terms;
    for (const Term& t : terms) {
      if (t.value == sum_->replaced) factor *= t.factor;  // 1 or -1
    }
    for (const Term& t : terms) {
      int64_t f;
      if (t.value == sum_->replaced) continue;
      if (__builtin_mul_overflow(-t.factor, factor, &f) || !AddTerm(t.value, f, sum)) return false;
    }
    return AddTerm(UOp(), factor, sum) && AddConstant(-sum_->sum.constant, factor, sum);
  }
  bool Add(UOp x, int64_t first_factor, Sum& sum) const {
    absl::InlinedVector<Term, 16> stack = {{x, first_factor}};
    while (!stack.empty()) {
      const auto [u, factor] = stack.back();
      stack.pop_back();
      if (IsReplaced(u)) {
        if (!AddReplaced(factor, sum)) return false;
      } else if (u.Is(Op::CONST)) {
        if (!AddConstant(u.const_int(), factor, sum)) return false;
      } else if (!IsLinear(u) || MaybeTight(u) != nullptr) {
        if (!AddTerm(u, factor, sum)) return false;
      } else if (u.Is(Op::MUL)) {
        const size_t side = u.src(1).Is(Op::CONST) ? 1 : 0;
        int64_t f;
        if (__builtin_mul_overflow(factor, u.src(side).const_int(), &f)) return false;
        stack.push_back({u.src(1 - side), f});
      } else {
        stack.push_back({u.src(0), u.Is(Op::NEG) ? -factor : factor});
        if (!u.Is(Op::NEG)) stack.push_back({u.src(1), u.Is(Op::SUB) ? -factor : factor});
      }
    }
    return true;
  }
  // Drops terms with factor 0; false if no term is left.
  static bool Tidy(Sum& sum) {
    sum.terms.erase(std::remove_if(sum.terms.begin(), sum.terms.end(),
                                   [](const Term& t) { return t.factor == 0; }),
                    sum.terms.end());
    return !sum.terms.empty();
  }

  UOpContext& ctx_;
  const MathGraph& graph_;
  const std::span<const BoundedNode> tight_;
  const BoundedSum* const sum_;
  absl::InlinedVector<bool, 64> differs_;  // by position in the graph: new bounds or new terms
  absl::InlinedVector<BoundedNode, 8> quotients_;  // quotients that got tighter bounds
  struct {
    Foresight* self;
    Bounds operator()(UOp u) const { return self->BoundsOfTerm(u); }
  } term_bounds_{this};
};

}  // namespace

bool MaySimplify(UOpContext& ctx, const MathGraph& graph, std::span<const BoundedNode> tight,
                 const BoundedSum* maybe_sum) {
  return Foresight(ctx, graph, tight, maybe_sum).MayChange();
}

}  // namespace uopd::rules
