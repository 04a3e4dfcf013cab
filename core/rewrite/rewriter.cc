// SPDX-License-Identifier: MIT
#include "core/rewrite/rewriter.h"

#include <numeric>

#include "absl/container/inlined_vector.h"
#include "core/base/metrics.h"

namespace uopd::rewrite {
namespace {
constexpr size_t kRecent = 20;
}

Rewriter::Rewriter(UOpContext& ctx, const RuleSet& rules, uint64_t max_steps)
    : ctx_(ctx),
      rules_(rules),
      max_steps_(max_steps),
      attempts_(rules.rules().size()),
      matches_(rules.rules().size()) {}

Rewriter::~Rewriter() {
  // A set may be made of several; each rule counts under the one that it was written in.
  for (size_t begin = 0; begin < attempts_.size();) {
    size_t end = begin;
    uint64_t attempts = 0, matches = 0;
    const std::string_view set = rules_.rules()[begin]->set;
    for (; end < attempts_.size() && rules_.rules()[end]->set == set; ++end) {
      attempts += attempts_[end], matches += matches_[end];
    }
    if (attempts > 0) metrics::PatternAttempts({set}).Increment(attempts);
    if (matches > 0) metrics::PatternMatches({set}).Increment(matches);
    begin = end;
  }
}

void Rewriter::SetDone(UOp u, UOp result) {
  if (u.id() >= done_.size()) done_.resize(std::max<size_t>(ctx_.size(), u.id() + 1));
  done_[u.id()] = result;
}

// A frame asks for the result of `original`. kVisit: push the sources. kRebuild: they are done;
// rebuild `current` from their results and try the rules. kAdopt: the result of `original` is that
// of `current`.
UOp Rewriter::Run(UOp root) {
  absl::InlinedVector<UOp, 8> srcs;
  stack_.push_back({root, root, kVisit});
  while (!stack_.empty()) {
    Frame& top = stack_.back();
    const UOp original = top.original;
    if (top.stage == kVisit) {
      if (Done(original)) {
        stack_.pop_back();
        continue;
      }
      top.stage = kRebuild;
      for (size_t i = original.n_src(); i-- > 0;) {
        const UOp s = original.src(i);
        if (!Done(s)) stack_.push_back({s, s, kVisit});
      }
      continue;
    }
    if (top.stage == kAdopt) {
      SetDone(original, Done(top.current));
      stack_.pop_back();
      continue;
    }
    srcs.clear();
    for (UOp s : original.srcs()) srcs.push_back(Done(s));
    const UOp rebuilt = ctx_.WithSources(original, srcs);
    UOp next;
    if (rebuilt != original) {
      if (Done(rebuilt)) {
        SetDone(original, Done(rebuilt));
        stack_.pop_back();
        continue;
      }
    }
    if (steps_ < max_steps_) {
      const RuleSet::Outcome outcome = rules_.Apply(rebuilt, ctx_, attempts_.data());
      if (outcome.result) {
        next = outcome.result;
        ++matches_[outcome.rule];
        if (recent_.size() < kRecent)
          recent_.push_back(outcome.rule);
        else
          recent_[steps_ % kRecent] = outcome.rule;
        if (++steps_ == max_steps_) metrics::Bugs({"rewrite diverged"}).Increment();
      }
    }
    if (!next) {
      SetDone(rebuilt, rebuilt);
      SetDone(original, rebuilt);
      stack_.pop_back();
      continue;
    }
    if (rebuilt != original)
      stack_.push_back({rebuilt, next, kAdopt}),
          stack_[stack_.size() - 2] = {original, rebuilt, kAdopt};
    else
      stack_.back() = {original, next, kAdopt};
    stack_.push_back({next, next, kVisit});
  }
  return Done(root);
}

std::vector<std::string> Rewriter::last_rules() const {
  std::vector<std::string> out;
  for (size_t i = 0; i < recent_.size(); ++i) {
    const size_t at = recent_.size() < kRecent ? i : (steps_ + i) % kRecent;
    const Rule& rule = *rules_.rules()[recent_[at]];
    out.push_back(std::string(rule.set) + "." + std::string(rule.name));
  }
  return out;
}

uint64_t Rewriter::attempts() const {
  return std::accumulate(attempts_.begin(), attempts_.end(), uint64_t{0});
}
uint64_t Rewriter::matches() const {
  return std::accumulate(matches_.begin(), matches_.end(), uint64_t{0});
}

UOp Rewrite(UOpContext& ctx, UOp root, const RuleSet& rules) {
  return Rewriter(ctx, rules).Run(root);
}

}  // namespace uopd::rewrite
