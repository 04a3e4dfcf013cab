// SPDX-License-Identifier: MIT
// Several parts of the axis of THREAD for each thread. Threads take parts one after the other, so a
// thread that is slowed down, by other work on its processor, leaves parts to the others.
#pragma once
#include <span>
#include <vector>

#include "core/codegen/cpu/heuristic/memory_opts.h"

namespace uopd::codegen {

// The amounts of THREAD that are worth a trial instead of the one in `opts`, largest first: 8, 4
// and 2 parts for each thread. None if the kernel has no THREAD for all threads, if every part
// would pack an operand for itself, or if all parts would share more data than half of a thread's
// own cache. `axes`: after `opts`.
std::vector<int64_t> ThreadParts(ir::UOpContext& ctx, ir::UOp sink, const Target& target,
                                 std::span<const MemoryAxis> axes, std::span<const Opt> opts);

}  // namespace uopd::codegen
