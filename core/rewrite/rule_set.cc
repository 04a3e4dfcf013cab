// SPDX-License-Identifier: MIT
#include "core/rewrite/rule_set.h"

#include <cstdlib>

#include "core/base/config/debug_flags.h"
#include "core/base/mutex.h"
#include "core/base/status.h"
#include "core/base/telemetry/log.h"
#include "core/base/telemetry/metrics.h"
#include "core/base/text.h"
#include "core/rewrite/match_stats.h"

namespace uopd::rewrite {

Int128 FoldInts(Op op, Int128 a, Int128 b) {
  switch (op) {
    case Op::ADD:
      return a + b;
    case Op::SUB:
      return a - b;
    case Op::MUL: {
      Int128 out;
      constexpr Int128 kTooBig = Int128{1} << 120;  // fits no dtype: FittingConst refuses it
      return __builtin_mul_overflow(a, b, &out) ? kTooBig : out;
    }
    case Op::FLOORDIV:
      return b == 0 ? 0 : a / b - ((a % b != 0) && ((a < 0) != (b < 0)));
    case Op::FLOORMOD:
      return b == 0 ? 0 : a % b + ((a % b != 0) && ((a < 0) != (b < 0)) ? b : 0);
    case Op::MAX:
      return a > b ? a : b;
    case Op::AND:
      return a & b;
    case Op::OR:
      return a | b;
    case Op::XOR:
      return a ^ b;
    case Op::CMPLT:
      return a < b;
    case Op::CMPNE:
      return a != b;
    case Op::CMPEQ:
      return a == b;
    default:
      UOPD_CHECK(false);
      return 0;
  }
}

UOp FittingConst(UOpContext& ctx, Dtype want, Int128 v) {
  const ir::IntRange range = ir::RangeOf(want);
  return ir::IsFloat(want) || v < range.min || v > range.max ? UOp() : ctx.Int(want, v);
}

PatternTree DescribeNode(ir::OpSet ops, std::vector<PatternTree> children) {
  PatternTree t;
  t.kind = PatternTree::kNode;
  t.ops = ops;
  for (PatternTree& c : children) {
    if (c.rest && c.variable < 0 && c.kind == PatternTree::kAny) {
      t.rest = true;
      continue;
    }
    if (c.each) {
      t.each = true;
      c.each = false;
    }
    t.children.push_back(std::move(c));
  }
  return t;
}

namespace {

// The names in UOPD_DISABLE_RULES. A name that matches no rule is logged once.
class DisabledRules {
 public:
  static DisabledRules& Get() {
    static auto* rules = new DisabledRules(Debug().disable_rules);
    return *rules;
  }

  bool Has(const Rule& rule) {
    const MutexLock lock(mu_);
    bool out = false;
    for (Name& n : names_) {
      if (n.set == rule.set && (n.rule == "*" || n.rule == rule.name)) n.used = out = true;
    }
    return out;
  }
  void ReportUnused(std::string_view set) {
    const MutexLock lock(mu_);
    for (Name& n : names_) {
      if (n.set == set && !n.used) Report(n);
    }
  }

 private:
  struct Name {
    std::string set, rule;
    bool used = false, reported = false;
  };

  explicit DisabledRules(std::string_view list) {
    while (!list.empty()) {
      const size_t end = std::min(list.find(','), list.size());
      const std::string_view name = list.substr(0, end);
      list.remove_prefix(std::min(end + 1, list.size()));
      const size_t dot = std::min(name.find('.'), name.size());
      names_.push_back({std::string(name.substr(0, dot)),
                        std::string(name.substr(std::min(dot + 1, name.size())))});
      if (dot == name.size()) Report(names_.back());
    }
    // Sets are built on first use, so a name of a set that is never built is only known at exit.
    if (!names_.empty()) std::atexit([] { Get().ReportAll(); });
  }
  void ReportAll() {
    const MutexLock lock(mu_);
    for (Name& n : names_) {
      if (!n.used) Report(n);
    }
  }
  static void Report(Name& n) {
    if (n.reported) return;
    n.reported = true;
    UOPD_LOG(kWarn, "UOPD_DISABLE_RULES names a rule that does not exist",
             {"rule", n.rule.empty() ? n.set : Cat(n.set, ".", n.rule)});
  }

  Mutex mu_;
  std::vector<Name> names_ UOPD_GUARDED_BY(mu_);
};

// Updates the metrics of one rule: adds the attempts of a Rewriter, and the time since the last
// call.
void ExportRule(const Rule& rule, uint64_t attempts) {
  const int64_t ns = rule.counts.match_ns.load() + rule.counts.miss_ns.load();
  metrics::RuleAttempts({rule.set, rule.name}).Increment(attempts);
  // Several threads may be here. Each adds what it moves exported_ns by, and nobody moves it back.
  int64_t before = rule.counts.exported_ns.load();
  while (before < ns && !rule.counts.exported_ns.compare_exchange_weak(before, ns)) {
  }
  TimeCounter& time = metrics::RuleTime({rule.set, rule.name});
  if (before < ns) time.AddNs(static_cast<uint64_t>(ns - before));
}

}  // namespace

RuleSet::RuleSet(std::string_view name) : name_(name) {}
RuleSet::~RuleSet() = default;
RuleSet::RuleSet(RuleSet&&) noexcept = default;
RuleSet& RuleSet::operator=(RuleSet&&) noexcept = default;

void RuleSet::Register(std::shared_ptr<const Rule> rule) { rules_.push_back(std::move(rule)); }

void RuleSet::Include(const RuleSet& other) {
  rules_.insert(rules_.end(), other.rules_.begin(), other.rules_.end());
}

void RuleSet::Freeze() {
  DisabledRules& disabled = DisabledRules::Get();
  std::erase_if(rules_, [&](const auto& rule) { return disabled.Has(*rule); });
  disabled.ReportUnused(name_);
  RegisterForStats(rules_);
  std::array<std::vector<Candidate>, ir::kOpCount> by_root;
  size_t n_words = 0, n_candidates = 0;
  for (int op = 0; op < ir::kOpCount; ++op) {
    for (uint32_t index = 0; index < rules_.size(); ++index) {
      const Rule& rule = *rules_[index];
      if (rule.roots.Has(static_cast<Op>(op))) by_root[op].push_back({rule.apply, &rule, index});
    }
    n_candidates += by_root[op].size();
    n_words += (by_root[op].size() + 63) / 64;
  }
  // Reserve, so that pointers into both vectors stay valid.
  words_.reserve(n_words);
  candidates_.reserve(n_candidates);
  for (int op = 0; op < ir::kOpCount; ++op) {
    if (!by_root[op].empty()) roots_.Add(static_cast<Op>(op));
    buckets_[op].begin = words_.data() + words_.size();
    for (size_t i = 0; i < by_root[op].size(); ++i) {
      candidates_.push_back(by_root[op][i]);
      if (i % 64 == 0) words_.emplace_back().candidates = &candidates_.back();
      Word& word = words_.back();
      const uint64_t bit = uint64_t{1} << (i % 64);
      const SourceOps& sources = by_root[op][i].rule->sources;
      for (int d = 0; d < ir::kDtypeCount; ++d) {
        if ((sources.root_dtypes >> d & 1) != 0) word.roots[d] |= bit;
        if ((sources.dtypes >> d & 1) != 0) word.dtypes[d] |= bit;
      }
      for (int kind = 0; kind < kKindCount; ++kind) {
        for (int position = 0; position < 3; ++position) {
          if (sources.at[position].Has(kind)) word.kinds[position][kind] |= bit;
        }
        if (sources.either.Has(kind)) word.either[kind] |= bit;
      }
      if (sources.same) word.same |= bit;
    }
    buckets_[op].end = words_.data() + words_.size();
  }
  for (size_t begin = 0, end; begin < rules_.size(); begin = end) {
    end = begin;
    while (end < rules_.size() && rules_[end]->set == rules_[begin]->set) ++end;
    sections_.push_back(std::unique_ptr<const Section>(new Section{begin, end}));
  }
}

void RuleSet::AddCounts(std::span<const uint64_t> attempts,
                        std::span<const uint64_t> matches) const {
  // Several threads may call `find` at the same time: it always returns the same counter.
  auto add = [](std::atomic<Counter*>& counter, uint64_t by, auto find) {
    if (by == 0) return;
    Counter* c = counter.load(std::memory_order_acquire);
    if (c == nullptr) counter.store(c = &find(), std::memory_order_release);
    c->Increment(by);
  };
  for (const auto& section : sections_) {
    uint64_t tried = 0, matched = 0;
    for (size_t i = section->begin; i < section->end; ++i) {
      if (attempts[i] == 0) continue;
      tried += attempts[i];
      rules_[i]->counts.attempts.fetch_add(attempts[i], std::memory_order_relaxed);
      if (matches[i] == 0) continue;
      matched += matches[i];
      const Rule& rule = *rules_[i];
      rule.counts.matches.fetch_add(matches[i], std::memory_order_relaxed);
      add(rule.counts.exported, matches[i],
          [&]() -> Counter& { return metrics::RuleMatches({rule.set, rule.name}); });
    }
    const std::string_view name = rules_[section->begin]->set;
    if (Debug().track_match_stats >= 1) {
      for (size_t i = section->begin; i < section->end; ++i) {
        if (attempts[i] != 0) ExportRule(*rules_[i], attempts[i]);
      }
    }
    add(section->attempts, tried, [&]() -> Counter& { return metrics::PatternAttempts({name}); });
    add(section->matches, matched, [&]() -> Counter& { return metrics::PatternMatches({name}); });
  }
}

}  // namespace uopd::rewrite
