// SPDX-License-Identifier: MIT
// Rewriter: applies a rule set to a whole graph until nothing applies.
//
// Nodes are visited sources first; what a rule returns is itself rewritten completely. A Rewriter
// remembers the result of every node it has seen, so asking again, or for a graph that shares
// nodes, is cheap: rules must therefore be pure functions of the node. Not thread-safe; belongs to
// the thread of its context.
//
// Termination: after `max_steps` rewrites the Rewriter stops applying rules (what it returns is
// still equal in value), counts uopd_bugs_total and names the last rules in last_rules().
#pragma once
#include <string>
#include <vector>

#include "core/rewrite/rule_set.h"

namespace uopd::rewrite {

class Rewriter {
 public:
  Rewriter(UOpContext& ctx, const RuleSet& rules, uint64_t max_steps = 20'000'000);
  ~Rewriter();  // adds the counts to uopd_pattern_attempts_total and uopd_pattern_matches_total

  UOp Run(UOp root);

  bool diverged() const { return steps_ >= max_steps_; }
  std::vector<std::string> last_rules() const;  // oldest first
  uint64_t attempts() const;
  uint64_t matches() const;

 private:
  UOp Done(UOp u) const { return u.id() < done_.size() ? done_[u.id()] : UOp(); }
  void SetDone(UOp u, UOp result);

  UOpContext& ctx_;
  const RuleSet& rules_;
  const uint64_t max_steps_;
  uint64_t steps_ = 0;
  std::vector<UOp> done_;  // by id; null until known
  std::vector<uint64_t> attempts_, matches_;
  std::vector<uint32_t> recent_;  // ring of rule indices

  enum Stage : uint8_t { kVisit, kRebuild, kAdopt };
  struct Frame {
    UOp original, current;
    Stage stage;
  };
  std::vector<Frame> stack_;
};

// One rewrite with a Rewriter of its own.
UOp Rewrite(UOpContext& ctx, UOp root, const RuleSet& rules);

}  // namespace uopd::rewrite
