// SPDX-License-Identifier: MIT
// The matrix instructions of a linear kernel as PTX, and what stands around them.
#pragma once
#include "core/base/status.h"
#include "core/base/target/target.h"
#include "core/ir/group_mma.h"
#include "core/render/ptx/text.h"

namespace uopd::render {

// The instruction of a MATRIX_LOAD, without its operands.
std::string PtxMatrixLoad(ir::UOp u);

// The instruction of an ASYNC_COPY, ASYNC_COMMIT or ASYNC_WAIT, without addresses.
std::string PtxAsync(ir::UOp u);

// The instruction of a GROUP_MMA up to its operands, and what follows its two operands:
// "wgmma.mma_async.sync..." and
// ", 1, 1, 1, 0, 0". UNIMPLEMENTED: the target has no such matrix instruction.
struct PtxGroupInstruction {
  std::string name, after_operands;
};
absl::StatusOr<PtxGroupInstruction> PtxGroupMma(const Target& target, ir::UOp u);
// The operand of such an instruction that lies from address 0 on: the address in pieces of 16 bytes
// is to be added.
uint64_t PtxDescriptor(const ir::SharedMatrix& matrix);
// The instruction of an MMA_BEGIN, MMA_COMMIT, MMA_WAIT or SHARED_FENCE.
std::string PtxGroupOrder(ir::UOp u);

// Writes an MMA. UNIMPLEMENTED: the target has no such matrix instruction.
absl::Status PtxMatrixProduct(PtxText& text, const Target& target, ir::UOp u);

}  // namespace uopd::render
