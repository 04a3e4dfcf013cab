// SPDX-License-Identifier: MIT
// The rule sets of the symbolic engine. Each is frozen, immutable and lives for ever.
#pragma once
#include <vector>

#include "core/rewrite/rule_set.h"

namespace uopd::rules {

const rewrite::RuleSet& FoldRules();     // elementwise ops of constants
const rewrite::RuleSet& AlgebraRules();  // identities that hold for every value of the dtype
const rewrite::RuleSet& BooleanRules();  // conditions and WHERE
const rewrite::RuleSet&
IndexRules();  // sums, quotients, remainders and comparisons of index arithmetic
const rewrite::RuleSet& MemoryRules();  // gates of LOAD and STORE
const rewrite::RuleSet& ReduceRules();  // reductions over ranges that the value does not use

// All of the above in that order: what Simplify applies.
const rewrite::RuleSet& SymbolicRules();

// Every set by name, for uopd-opt and the self-tests.
std::vector<const rewrite::RuleSet*> AllRuleSets();

// Builds and freezes a set once; for use in a function-local static.
template <class F>
rewrite::RuleSet Built(std::string_view name, F add) {
  rewrite::RuleSet rules(name);
  add(rules);
  rules.Freeze();
  return rules;
}

}  // namespace uopd::rules
