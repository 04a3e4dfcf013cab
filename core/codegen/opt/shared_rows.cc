// SPDX-License-Identifier: MIT
#include "core/codegen/opt/shared_rows.h"

#include <set>
#include <vector>

#include "core/rules/index_expr.h"

namespace uopd::codegen {

ir::UOp SharedRows::Index(ir::UOpContext& ctx, ir::UOp row, ir::UOp word) const {
  return rules::IndexSum(ctx, rules::IndexProduct(ctx, row, ctx.Idx(stride_)), word);
}

int64_t WordsOfOneBank(std::span<const int64_t> words) {
  const std::set<int64_t> different(words.begin(), words.end());
  std::vector<int64_t> in_bank(SharedRows::kBanks);
  for (const int64_t word : different) ++in_bank[static_cast<size_t>(word % SharedRows::kBanks)];
  return *std::ranges::max_element(in_bank);
}

}  // namespace uopd::codegen
