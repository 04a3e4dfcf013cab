// SPDX-License-Identifier: MIT
// RuleSet: named rules in order, frozen once, with an index that finds the candidates for a node in
// a few loads.
//
// The first rule that applies wins. Freeze builds, for each root op, bitmaps over that op's rules
// per (source position, kind of that source: its op, or 0, 1 or -1), per kind that one of the first
// two sources has to have, per dtype of the root and of the first source, and of the rules for
// which the first two sources have to be one node; a visit ANDs them and tries the set bits in rule
// order. Rules named in UOPD_DISABLE_RULES ("set.rule,set.*") are left out; a name that no rule has
// is reported in the log. A frozen set is immutable and may be used by any number of threads.
#pragma once
#include <atomic>
#include <functional>
#include <memory>
#include <source_location>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/metrics.h"
#include "core/rewrite/match.h"
#include "core/rewrite/pattern_tree.h"

namespace uopd::rewrite {

// What a rule has done in this process; times only with TRACK_MATCH_STATS.
struct RuleCounts {
  std::atomic<uint64_t> attempts{0}, matches{0};
  std::atomic<int64_t> match_ns{0}, miss_ns{0};
};

struct Rule {
  std::string_view set, name;  // string literals
  std::source_location where;  // of the Add
  OpSet roots;
  SourceOps sources;
  UOp (*apply)(const Rule&, UOp, UOpContext&, RuleEnv&) = nullptr;  // null: does not apply
  mutable RuleCounts counts;
  virtual ~Rule() = default;
  virtual PatternTree Describe() const = 0;  // the left-hand side, for tools

  std::string FullName() const { return std::string(set) + "." + std::string(name); }
};

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

  // lhs: a pattern. rhs: a pattern, a number, or a callable (Bound) -> UOp, null if it does not
  // apply. when: a condition pattern over constants or a callable (Bound) -> bool.
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
  // Appends the rules of another set; they keep their set's name.
  void Include(const RuleSet& other);
  void Freeze();

  std::string_view name() const { return name_; }
  const std::vector<std::shared_ptr<const Rule>>& rules() const { return rules_; }

  // The ops that are the root of some rule.
  OpSet roots() const { return roots_; }
  // Adds what a rewrite has done (by index into rules()) to the counts of the rules and to
  // uopd_pattern_attempts_total and uopd_pattern_matches_total.
  void AddCounts(std::span<const uint64_t> attempts, std::span<const uint64_t> matches) const;

  // Tries the rules on u. `attempts` (by index into rules()) counts those tried; `rule` is the one
  // that applied.
  struct Outcome {
    UOp result;  // null: none applied
    uint32_t rule = 0;
  };
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
  // Calls attempt(candidate) -> UOp for the rules that may apply to u, in order, until one gives a
  // node.
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
  // 64 rules of one root op. kinds[position][kind]: bit i is set if rule i can match a source of
  // that kind; either[kind]: if it can where one of the first two sources is of that kind;
  // roots[dtype]: if the root may have that dtype; dtypes[dtype]: if its first source may; same: if
  // the first two have to be the same. A missing source counts as every kind.
  struct Word {
    const Candidate* candidates = nullptr;
    uint64_t roots[ir::kDtypeCount] = {};
    uint64_t dtypes[ir::kDtypeCount] = {};
    uint64_t kinds[3][kKindCount] = {};
    uint64_t either[kKindCount] = {};
    uint64_t same = 0;
  };
  struct Bucket {
    const Word *begin = nullptr, *end = nullptr;
  };
  void Register(std::shared_ptr<const Rule> rule);

  std::string_view name_;
  std::vector<std::shared_ptr<const Rule>> rules_;
  // Rules of one set, which count together; a set may be made of several.
  struct Section {
    size_t begin, end;                                                  // in rules_
    mutable std::atomic<Counter*> attempts{nullptr}, matches{nullptr};  // null until first needed
  };
  std::array<Bucket, ir::kOpCount> buckets_;
  OpSet roots_;
  std::vector<std::unique_ptr<const Section>> sections_;
  std::vector<Word> words_;            // what the buckets point into
  std::vector<Candidate> candidates_;  // what the words point into
};

}  // namespace uopd::rewrite
