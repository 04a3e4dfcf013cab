// SPDX-License-Identifier: MIT
// The rules of WMMA and WMMA_BLOCK (docs/ir_linear.md).
#pragma once
#include "core/base/status.h"
#include "core/ir/uop.h"

namespace uopd::ir {

// INVALID_ARGUMENT for dtypes or numbers that the op does not take. REQUIRES: u has as many sources as
// its op takes.
absl::Status VerifyMma(UOp u);
absl::Status VerifyMatrixLoad(UOp u);
absl::Status VerifyWmma(UOp u);
absl::Status VerifyWmmaBlock(UOp u);

}  // namespace uopd::ir
