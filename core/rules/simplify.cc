// SPDX-License-Identifier: MIT
#include "core/rules/simplify.h"

#include "core/rewrite/rewriter.h"
#include "core/rules/rules.h"

namespace uopd::rules {
namespace {

rewrite::RuleSet Joined(std::string_view name,
                        std::initializer_list<const rewrite::RuleSet*> sets) {
  return Built(name, [&](rewrite::RuleSet& r) {
    for (const rewrite::RuleSet* set : sets) r.Include(*set);
  });
}

}  // namespace

const rewrite::RuleSet& PlainRules() {
  static const rewrite::RuleSet rules = Joined(
      "plain", {&FoldRules(), &AlgebraRules(), &CastRules(), &BooleanRules(), &IndexRules()});
  return rules;
}

const rewrite::RuleSet& SymbolicRules() {
  static const rewrite::RuleSet rules =
      Joined("symbolic", {&PlainRules(), &GivenRules(), &MemoryRules(), &ReduceRules()});
  return rules;
}

const rewrite::RuleSet& FastSymbolicRules() {
  static const rewrite::RuleSet rules =
      Joined("fast_symbolic", {&SymbolicRules(), &FastMathRules()});
  return rules;
}

std::vector<const rewrite::RuleSet*> AllRuleSets() {
  return {&FoldRules(),     &AlgebraRules(), &CastRules(),     &BooleanRules(),
          &IndexRules(),    &GivenRules(),   &MemoryRules(),   &ReduceRules(),
          &FastMathRules(), &PlainRules(),   &SymbolicRules(), &FastSymbolicRules()};
}

ir::UOp Simplify(ir::UOpContext& ctx, ir::UOp root, bool fast_math) {
  const rewrite::RuleSet& rules = fast_math ? FastSymbolicRules() : SymbolicRules();
  return rewrite::Rewriter(ctx, rules).Run(root);  // a diverging run still returns an equal value
}

}  // namespace uopd::rules
