// SPDX-License-Identifier: MIT
// RowPart: what is known of a copied value that may depend on the maximum M of a row (row_terms.h),
// and how elementwise ops combine such values.
#pragma once
#include <optional>
#include <span>
#include <vector>

#include "core/ir/context.h"

namespace uopd::codegen {

struct RowPart {
  enum class Kind : uint8_t {
    kFree,    // does not depend on the maximum
    kShift,   // f + amount * M
    kScaled,  // f * 2^(-amount * M), amount > 0
    kOuter    // computed from finished sums, the same for the whole row; `value` is not copied
  };
  // The value is multiplied or divided by a kOuter value after the reduction.
  struct Factor {
    ir::UOp value;
    bool divides = false;
  };
  Kind kind = Kind::kFree;
  double amount = 0;
  ir::UOp value;
  std::vector<Factor> factors;
};

// Kind, amount and factors of u, whose sources are `srcs`; nothing if they fit no rule. `keep`: the
// source that u becomes if all others are factors, or -1: u is computed from the values of its
// sources.
struct RowRule {
  RowPart part;
  int keep = -1;
};
std::optional<RowRule> CombineRowParts(ir::UOp u, std::span<const RowPart> srcs);

}  // namespace uopd::codegen
