// SPDX-License-Identifier: MIT
// How elementwise ops combine values that depend on the maximum of a row (row_terms.h).
#pragma once
#include <optional>
#include <span>

#include "core/codegen/attention/row_terms.h"

namespace uopd::codegen {

// Kind, amount and factors of u, whose sources are `srcs`; nothing if they fit no rule. `keep`: the source
// that u becomes if all others are factors, or -1: u is computed from the values of its sources.
struct RowRule {
  RowPart part;
  int keep = -1;
};
std::optional<RowRule> CombineRowParts(ir::UOp u, std::span<const RowPart> srcs);

}  // namespace uopd::codegen
