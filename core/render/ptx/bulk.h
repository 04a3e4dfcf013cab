// SPDX-License-Identifier: MIT
// BULK_INIT, BULK_EXPECT, BULK_COPY, BULK_WAIT and BULK_ARRIVE (docs/ir_linear.md) in PTX: copies
// by the tensor memory accelerator, and mbarriers in shared memory. CUDA C has the same
// instructions inline.
#pragma once
#include "core/ir/role.h"
#include "core/render/ptx/text.h"

namespace uopd::render {

inline constexpr int64_t kTensorMapBytes = 128,
                         kTensorMapAlignment = 64;  // of a kernel's parameter

// The instruction of a BULK_INIT, BULK_EXPECT, BULK_COPY, BULK_WAIT or BULK_ARRIVE, without
// operands. That of a BULK_WAIT may give false: it waits for some time only.
std::string PtxBulk(ir::UOp u);
// Behind a BULK_INIT: copies see the barriers.
inline constexpr std::string_view kPtxBulkInitFence = "fence.mbarrier_init.release.cluster";

// What changes the number of registers of a role's threads, in a block of so many threads that has
// all registers.
std::string PtxSetRegisters(const ir::WarpRole& role, int64_t threads);

// Statements of the line. The places are operands in brackets: of what a BULK_COPY fills and of its
// map, and of the barriers, one after the other. `gate`: a predicate, or "".
void PtxBulkCopy(PtxText& text, ir::UOp u, const std::string& gate, const std::string& to,
                 const std::string& map, const std::string& barrier);
void PtxBulkInit(PtxText& text, ir::UOp u, const std::string& gate,
                 const std::vector<std::string>& barriers);
void PtxBulkExpect(PtxText& text, ir::UOp u, const std::string& gate, const std::string& barrier);
void PtxBulkArrive(PtxText& text, ir::UOp u, const std::string& gate, const std::string& barrier);
void PtxBulkWait(PtxText& text, ir::UOp u, const std::string& barrier);

}  // namespace uopd::render
