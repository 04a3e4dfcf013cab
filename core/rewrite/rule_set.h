// SPDX-License-Identifier: MIT
// RuleSet: named rules in order, frozen once, with an index that finds the candidates for a node in
// a few loads.
//
// The first rule that applies wins. Freeze builds, for each root op, bitmaps over that op's rules
// per (source position, op of that source); a visit ANDs three of them and tries the set bits in
// rule order. Rules named in UOPD_DISABLE_RULES
// ("set.rule,set.rule") are left out. A frozen set is immutable and may be used by any number of
// threads.
#pragma once
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/rewrite/match.h"
#include "core/rewrite/pattern_tree.h"

namespace uopd::rewrite {

struct Rule {
  std::string_view set, name;  // string literals
  OpSet roots;
  SourceOps sources;
  UOp (*apply)(const Rule&, UOp, UOpContext&) = nullptr;  // null: does not apply
  virtual ~Rule() = default;
  virtual PatternTree Describe() const = 0;  // the left-hand side, for tools
};

template <class L, class R, class C>
struct RuleOf final : Rule {
  L lhs;
  R rhs;
  C when;
  RuleOf(L l, R r, C c) : lhs(l), rhs(r), when(c) {}
  PatternTree Describe() const override { return rewrite::Describe(lhs); }

  static UOp Run(const Rule& base, UOp u, UOpContext& ctx) {
    const auto& self = static_cast<const RuleOf&>(base);
    Match m;
    m.root = u;
    UOp out;
    Do<0>(self.lhs, u, m, [&] {
      const Bound<L::kBinds> bound(m, ctx);
      if constexpr (Pattern<C>) {
        static_assert((C::kBinds & ~L::kBinds) == 0,
                      "condition uses a variable the left-hand side does not bind");
        if (self.when.Eval(m) == 0) return false;
      } else if constexpr (!std::is_same_v<C, std::nullptr_t>) {
        if (!self.when(bound)) return false;
      }
      if constexpr (Pattern<R>) {
        static_assert((R::kBinds & ~L::kBinds) == 0,
                      "right-hand side uses a variable the left-hand side does not bind");
        out = self.rhs.Make(ctx, m, u.dtype());
      } else {
        out = self.rhs(bound);
      }
      return bool(out) && out != u;
    });
    return out == u ? UOp() : out;
  }
};

class RuleSet {
 public:
  explicit RuleSet(std::string_view name);  // a string literal
  ~RuleSet();
  RuleSet(RuleSet&&) noexcept;

  // lhs: a pattern. rhs: a pattern, a number, or a callable (Bound) -> UOp, null if it does not
  // apply. when: a condition pattern over constants or a callable (Bound) -> bool.
  template <Pattern L, class R, class C = std::nullptr_t>
  void Add(std::string_view rule, L lhs, R rhs, C when = nullptr) {
    auto right = [&] {
      if constexpr (std::is_integral_v<R>) {
        return Literal(rhs);
      } else {
        return rhs;
      }
    }();
    auto made = std::make_shared<RuleOf<L, decltype(right), C>>(lhs, right, when);
    made->set = name_, made->name = rule, made->roots = lhs.Roots(), made->sources = SourcesOf(lhs);
    made->apply = &RuleOf<L, decltype(right), C>::Run;
    Register(std::move(made));
  }
  // Appends the rules of another set; they keep their set's name.
  void Include(const RuleSet& other);
  void Freeze();

  std::string_view name() const { return name_; }
  const std::vector<std::shared_ptr<const Rule>>& rules() const { return rules_; }

  // Tries the rules on u. `attempts` (by index into rules()) counts those tried; `hit` is the one
  // that applied.
  struct Outcome {
    UOp result;  // null: none applied
    uint32_t rule = 0;
  };
  Outcome Apply(UOp u, UOpContext& ctx, uint64_t* attempts) const;

 private:
  struct Bucket;
  void Register(std::shared_ptr<const Rule> rule);

  std::string_view name_;
  std::vector<std::shared_ptr<const Rule>> rules_;
  std::array<std::unique_ptr<Bucket>, ir::kOpCount> buckets_;
};

}  // namespace uopd::rewrite
