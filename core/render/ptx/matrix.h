// SPDX-License-Identifier: MIT
// The MMA of a linear kernel as PTX.
#pragma once
#include "core/base/status.h"
#include "core/base/target.h"
#include "core/render/ptx/text.h"

namespace uopd::render {

// Writes an MMA. UNIMPLEMENTED: the target has no such matrix instruction.
// The instruction of a MATRIX_LOAD, without its operands.
std::string PtxMatrixLoad(ir::UOp u);

absl::Status PtxMatrixProduct(PtxText& text, const Target& target, ir::UOp u);

}  // namespace uopd::render
