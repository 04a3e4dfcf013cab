// SPDX-License-Identifier: MIT
// RunSchedule: runs a schedule kernel by kernel on host arrays, without codegen. The reference for
// the meaning of a schedule.
#pragma once
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "core/schedule/schedule.h"
#include "tests/support/kernel_interpreter.h"
#include "tests/support/tensor_interpreter.h"

namespace uopd::test {

using Variables = std::map<std::string, int64_t>;

// Runs one kernel over its buffers.
using RunKernel =
    std::function<absl::Status(ir::UOpContext&, ir::UOp sink, tests::Memory&, const Variables&)>;

// Returns the slots after the run. Temporaries lie in the planned arenas, which are filled with
// `poison` first, so a wrong memory plan or a read of unwritten memory gives wrong results. `run`
// runs each kernel; null: the interpreter, in which an access outside of a buffer aborts.
absl::StatusOr<std::vector<HostArray>> RunSchedule(const schedule::Schedule& schedule,
                                                   std::vector<HostArray> slots,
                                                   const Variables& variables = {},
                                                   const RunKernel& run = nullptr,
                                                   char poison = '\xa5');

// Runs the schedule twice, as a daemon does whose memory holds what others left: arenas, and slots
// that are overwritten whole and not read, are filled with another pattern each time. Every byte of
// every slot must be the same: such a byte reaches a client. Empty, or the first difference.
std::string FindLeak(const schedule::Schedule& schedule, const std::vector<HostArray>& slots,
                     const Variables& variables = {});

}  // namespace uopd::test
