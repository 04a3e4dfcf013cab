// SPDX-License-Identifier: MIT
#include "core/rules/simplify.h"

#include "core/rewrite/rewriter.h"
#include "core/rules/rules.h"

namespace uopd::rules {

const rewrite::RuleSet& SymbolicRules() {
  static const rewrite::RuleSet rules = Built("symbolic", [](rewrite::RuleSet& r) {
    for (const rewrite::RuleSet* set : {&FoldRules(), &AlgebraRules(), &BooleanRules(),
                                        &IndexRules(), &MemoryRules(), &ReduceRules()}) {
      r.Include(*set);
    }
  });
  return rules;
}

std::vector<const rewrite::RuleSet*> AllRuleSets() {
  return {&FoldRules(),   &AlgebraRules(), &BooleanRules(), &IndexRules(),
          &MemoryRules(), &ReduceRules(),  &SymbolicRules()};
}

ir::UOp Simplify(ir::UOpContext& ctx, ir::UOp root) {
  return rewrite::Rewriter(ctx, SymbolicRules()).Run(root);  // equal in value even if it diverges
}

}  // namespace uopd::rules
