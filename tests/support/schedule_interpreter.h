// SPDX-License-Identifier: MIT
// Runs a schedule kernel by kernel on host arrays, without codegen: what the scheduler means.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "core/schedule/schedule.h"
#include "tests/support/tensor_interpreter.h"

namespace uopd::testing {

// Slots after the run. Temporaries live in the planned arenas, which start poisoned, so a wrong
// plan or a read of memory that was never written shows; an access outside its buffer aborts.
absl::StatusOr<std::vector<HostArray>> RunSchedule(
    const schedule::Schedule& schedule, std::vector<HostArray> slots,
    const std::map<std::string, int64_t>& variables = {});

}  // namespace uopd::testing
