// SPDX-License-Identifier: MIT
// Threads for host streams that work in the background. Each queue that has work uses one thread;
// the thread then waits for the next queue.
//
// The threads belong to the process and not to a device. Reason: one of these threads may drop the
// last reference to a device, and the device's destructor could not join the thread that it runs
// on. The threads are never joined, and idle threads do not end. Thread-safe.
#pragma once
#include <functional>

namespace uopd::devices {

// Calls `task` soon, on an idle thread or on a new one.
void RunOnQueueThread(std::function<void()> task);

}  // namespace uopd::devices
