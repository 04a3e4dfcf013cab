// SPDX-License-Identifier: MIT
// The rule sets of the symbolic engine. Each is frozen, immutable and lives for ever.
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
const rewrite::RuleSet& GivenRules();   // what a condition says about what it guards
const rewrite::RuleSet& MemoryRules();  // gates of LOAD and STORE
const rewrite::RuleSet& ReduceRules();  // reductions that need no loop

// Fold, algebra, casts, boolean and index: whatever a context of its own knows about.
const rewrite::RuleSet& PlainRules();
// All of the above: what Simplify applies.
const rewrite::RuleSet& SymbolicRules();

// Float identities that change IEEE results, and SymbolicRules followed by them.
const rewrite::RuleSet& FastMathRules();
const rewrite::RuleSet& FastSymbolicRules();

// reduce over ranges of x * f, where f varies with none of them, as (reduce of x) * f; null if
// there is no such factor. Exact for integers.
ir::UOp FactorOut(ir::UOpContext& ctx, ir::UOp reduce);

// x multiplied n times with itself, n > 0, with at most 2 log2(n) products.
ir::UOp Power(ir::UOpContext& ctx, ir::UOp x, int64_t n);

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
