// SPDX-License-Identifier: MIT
// JoinAccesses: in a kernel with matrix instructions of warps, stores of neighbouring results of
// one thread become vector stores, and what their values load likewise becomes vector loads.
//
// An instruction gives a lane some neighbours of each row (Fragment). They are copies after Unroll,
// with a store each. Accesses are joined if they have the same index but for a constant, and the
// same gate: up to `most_bytes`, at a multiple of that many elements of the constant. Renderers use
// a wide instruction where the address is aligned, and else one for each element, as before.
#pragma once
#include "core/ir/context.h"

namespace uopd::codegen {

inline constexpr int64_t kWidestAccessBytes = 16, kRegisterBytes = 4;

// Runs after Vectorise. Only stores to and loads from buffers that the kernel does not use
// otherwise are joined, and none of what a reduction or a stage computes. Thread-safe for different
// contexts.
ir::UOp JoinAccesses(ir::UOpContext& ctx, ir::UOp sink, int64_t most_bytes);

}  // namespace uopd::codegen
