// SPDX-License-Identifier: MIT
// RuleSet: an ordered list of named rules with a candidate index, which finds the rules that may
// apply to a node with a few loads.
//
// The first rule that applies wins. The candidate index has, for each root op, bitmaps over the
// rules of that op: by kind (match.h) of each of the first three sources, by kind of "one of the
// first two sources", by dtype of the root and of the first source, and for "the first two sources
// are the same node". A visit ANDs them and tries the rules of the remaining bits in order.
//
// Add rules, then call Freeze once; a frozen set is immutable and any thread may use it. Freeze
// leaves out the rules named in UOPD_DISABLE_RULES ("set.rule,set.*"); unknown names are logged.
#pragma once
#include <atomic>
#include <functional>
#include <memory>
#include <source_location>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/rewrite/match.h"
#include "core/rewrite/pattern_tree.h"

namespace uopd {
class Counter;  // core/base/telemetry/metrics.h
}

namespace uopd::rewrite {

// Counts of one rule in this process. Times are 0 unless a debug flag observes rewrites.
struct RuleCounts {
  std::atomic<uint64_t> attempts{0}, matches{0};
  std::atomic<int64_t> match_ns{0}, miss_ns{0};
  std::atomic<int64_t> exported_ns{0};      // of both times
  std::atomic<Counter*> exported{nullptr};  // uopd_rule_matches_total; null until the first match
};

struct Rule {
  std::string_view set, name;  // string literals
  std::source_location where;  // the call of Add
  OpSet roots;
  SourceOps sources;
  UOp (*apply)(const Rule&, UOp, UOpContext&, RuleEnv&) = nullptr;  // returns null: no match
  mutable RuleCounts counts;
  virtual ~Rule() = default;
  virtual PatternTree Describe() const = 0;  // the left-hand side, for tools

  std::string FullName() const { return std::string(set) + "." + std::string(name); }
};

// A rule with its left-hand side, right-hand side and condition (nullptr_t: none).
template <class L, class R, class C>
struct RuleOf final : Rule {
  L lhs;
  R rhs;
  C when;
  RuleOf(L l, R r, C c) : lhs(l), rhs(r), when(c) {}
  PatternTree Describe() const override { return rewrite::Describe(lhs); }

  static UOp Run(const Rule& base, UOp u, UOpContext& ctx, RuleEnv& env) {
    const auto& self = static_cast<const RuleOf&>(base);
    Match m;
    m.root = u;
    UOp out;
    Do<0>(self.lhs, u, m, [&] {
      const Bound<L::kBinds> bound(m, ctx, env);
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
      return bool(out) && (out != u || env.final);
    });
    return out == u && !env.final ? UOp() : out;
  }
};

class RuleSet {
 public:
  explicit RuleSet(std::string_view name);  // a string literal
  ~RuleSet();
  RuleSet(RuleSet&&) noexcept;
  RuleSet& operator=(RuleSet&&) noexcept;

  // Appends a rule. lhs: a pattern. rhs: a pattern, a number, or a callable (Bound) -> UOp that
  // returns null if the rule does not apply. when: a condition pattern over constants, or a
  // callable (Bound) -> bool.
  template <Pattern L, class R, class C = std::nullptr_t>
  void Add(std::string_view rule, L lhs, R rhs, C when = nullptr,
           std::source_location where = std::source_location::current()) {
    auto right = [&] {
      if constexpr (std::is_integral_v<R>) {
        return Literal(rhs);
      } else {
        return rhs;
      }
    }();
    auto made = std::make_shared<RuleOf<L, decltype(right), C>>(lhs, right, when);
    made->set = name_;
    made->name = rule;
    made->roots = lhs.Roots();
    made->sources = SourcesOf(lhs);
    made->where = where;
    made->apply = &RuleOf<L, decltype(right), C>::Run;
    Register(std::move(made));
  }
  // Appends the rules of another set. They keep the name of that set.
  void Include(const RuleSet& other);
  void Freeze();

  std::string_view name() const { return name_; }
  const std::vector<std::shared_ptr<const Rule>>& rules() const { return rules_; }

  // The root ops of all rules.
  OpSet roots() const { return roots_; }
  // Adds the counts of a Rewriter (by index into rules()) to those of the rules and to
  // uopd_pattern_attempts_total and uopd_pattern_matches_total.
  void AddCounts(std::span<const uint64_t> attempts, std::span<const uint64_t> matches) const;

  struct Outcome {
    UOp result;         // null: no rule applied
    uint32_t rule = 0;  // the rule that applied, an index into rules()
  };
  // Tries the rules on u. Increments `attempts` (by index into rules()) for each rule tried.
  Outcome Apply(UOp u, UOpContext& ctx, uint64_t* attempts, RuleEnv& env) const {
    return TryEach(u, [&](const Candidate& c) {
      ++attempts[c.index];
      return c.apply(*c.rule, u, ctx, env);
    });
  }
  Outcome Apply(UOp u, UOpContext& ctx, uint64_t* attempts) const {
    RuleEnv env;
    return Apply(u, ctx, attempts, env);
  }

  struct Candidate {
    UOp (*apply)(const Rule&, UOp, UOpContext&, RuleEnv&);
    const Rule* rule;
    uint32_t index;  // into rules()
  };
  // Calls attempt(candidate) -> UOp for the rules that may apply to u, in order, until a call
  // returns a node.
  template <class F>
  Outcome TryEach(UOp u, F attempt) const {
    const Bucket& bucket = buckets_[static_cast<int>(u.op())];
    const size_t n = u.n_src();
    for (const Word *word = bucket.begin, *end = bucket.end; word != end; ++word) {
      uint64_t bits = word->roots[static_cast<int>(u.dtype())];
      if (n > 0) {
        const UOp s = u.src(0);
        const int a = KindOf(s);
        bits &= word->kinds[0][a] & word->dtypes[static_cast<int>(s.dtype())];
        if (n > 1 && bits != 0) {
          const int b = KindOf(u.src(1));
          bits &= word->kinds[1][b] & (word->either[a] | word->either[b]);
          if (s != u.src(1)) bits &= ~word->same;
          if (n > 2) bits &= word->kinds[2][KindOf(u.src(2))];
        }
      }
      for (; bits != 0; bits &= bits - 1) {
        const Candidate& c = word->candidates[std::countr_zero(bits)];
        if (const UOp out = attempt(c)) return {out, c.index};
      }
    }
    return {};
  }

 private:
  // Bitmaps over up to 64 rules of one root op. Except for `same`, bit i is set if rule i can match
  // what the comment says. A missing source excludes no rule.
  struct Word {
    const Candidate* candidates = nullptr;
    uint64_t roots[ir::kDtypeCount] = {};   // a root of this dtype
    uint64_t dtypes[ir::kDtypeCount] = {};  // a first source of this dtype
    uint64_t kinds[3][kKindCount] = {};     // a source of this kind at this position
    uint64_t either[kKindCount] = {};       // nodes with such a first or second source
    uint64_t same = 0;  // bit i: rule i needs the first two sources to be the same node
  };
  struct Bucket {
    const Word *begin = nullptr, *end = nullptr;
  };
  void Register(std::shared_ptr<const Rule> rule);

  std::string_view name_;
  std::vector<std::shared_ptr<const Rule>> rules_;
  // Consecutive rules with the same set name, which share metrics. An Include adds sections.
  struct Section {
    size_t begin, end;                                                  // positions in rules_
    mutable std::atomic<Counter*> attempts{nullptr}, matches{nullptr};  // null until first needed
  };
  std::array<Bucket, ir::kOpCount> buckets_;
  OpSet roots_;
  std::vector<std::unique_ptr<const Section>> sections_;
  std::vector<Word> words_;            // the buckets point into it
  std::vector<Candidate> candidates_;  // the words point into it
};

}  // namespace uopd::rewrite
