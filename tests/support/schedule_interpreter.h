// SPDX-License-Identifier: MIT
// Runs a schedule kernel by kernel on host arrays, without codegen: what the scheduler means.
#pragma once
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "core/schedule/schedule.h"
#include "tests/support/kernel_interpreter.h"
#include "tests/support/tensor_interpreter.h"

namespace uopd::testing {

using Variables = std::map<std::string, int64_t>;

// Runs one kernel over its buffers.
using RunKernel =
    std::function<absl::Status(ir::UOpContext&, ir::UOp sink, tests::Memory&, const Variables&)>;

// Slots after the run. Temporaries live in the planned arenas, which start poisoned, so a wrong
// plan or a read of memory that was never written shows. Kernels run as `run` says, or in the
// interpreter, where an access outside its buffer aborts.
absl::StatusOr<std::vector<HostArray>> RunSchedule(const schedule::Schedule& schedule,
                                                   std::vector<HostArray> slots,
                                                   const Variables& variables = {},
                                                   const RunKernel& run = nullptr);

}  // namespace uopd::testing
