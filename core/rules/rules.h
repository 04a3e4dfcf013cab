// SPDX-License-Identifier: MIT
// The rule sets of the symbolic engine (docs/rules.md). Each set is built and frozen on first use
// and lives until the process exits; any thread may use it.
#pragma once
#include <vector>

#include "core/rewrite/rule_set.h"

namespace uopd::rules {

const rewrite::RuleSet& FoldRules();     // elementwise ops of constants
const rewrite::RuleSet& AlgebraRules();  // identities that hold for every value of the dtype
const rewrite::RuleSet& CastRules();     // casts, and integers that are casts of an index
const rewrite::RuleSet& BooleanRules();  // conditions and WHERE
const rewrite::RuleSet&
IndexRules();  // sums, quotients, remainders and comparisons of index arithmetic
const rewrite::RuleSet& GivenRules();   // expressions that a condition guards
const rewrite::RuleSet& MemoryRules();  // gates of LOAD and STORE
const rewrite::RuleSet& ReduceRules();  // reductions that need no loop

// Fold, algebra, casts, boolean and index: the sets that a trial (given_trial.h) applies.
const rewrite::RuleSet& PlainRules();
// All of the above: the set that Simplify applies.
const rewrite::RuleSet& SymbolicRules();

// FastMathRules: float identities that change IEEE results. FastSymbolicRules: SymbolicRules, then
// FastMathRules.
const rewrite::RuleSet& FastMathRules();
const rewrite::RuleSet& FastSymbolicRules();

// A sum of x * f over ranges as (sum of x) * f, if f depends on none of the ranges; null if there
// is no such factor. Exact for integers.
ir::UOp FactorOut(ir::UOpContext& ctx, ir::UOp reduce);

// x to the power of n > 0, by repeated squaring: at most 2 log2(n) products.
ir::UOp Power(ir::UOpContext& ctx, ir::UOp x, int64_t n);

// Every set, for uopd-opt and the self-tests.
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
