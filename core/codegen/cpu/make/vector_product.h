// SPDX-License-Identifier: MIT
// A sum of products by a matrix instruction whose operands are vectors of words (tensor_core.h), on
// CPUs.
#pragma once
#include "core/codegen/opts/make/making.h"
#include "core/codegen/opts/make/tensor_core.h"

namespace uopd::codegen {

// TC: see OptRow::add.
absl::Status AddVectorProduct(Adding& adding, const Opt& opt);

// Replaces a REDUCE of the plan's kernel (PlanState::IsMmaSum). `operands` are the replacements of
// its factors.
ir::UOp MakeVectorProduct(Making& making, ir::UOp reduce, const Factors& operands);

}  // namespace uopd::codegen
