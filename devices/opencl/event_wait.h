// SPDX-License-Identifier: MIT
// Waiting for an event of OpenCL with something to do meanwhile. Stateless.
#pragma once
#include <functional>

#include "devices/opencl/opencl_symbols.h"

namespace uopd::devices::opencl {

// Returns when the command of `event` is done or has failed, or when the driver cannot tell. About
// every millisecond it calls `meanwhile`. The driver's callback ends the wait; the status is also
// polled, so a driver that never calls back does not hang this thread.
void AwaitEvent(const OpenClApi& api, ClEvent* event, const std::function<void()>& meanwhile);

}  // namespace uopd::devices::opencl
