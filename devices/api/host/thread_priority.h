// SPDX-License-Identifier: MIT
// Threads for work that others should not wait for.
//
// A thread lowers its own priority and keeps it: raising it again takes a privilege. Devices whose
// kernels run on the host look at it: what a background thread launches runs on threads of that
// priority too.
#pragma once

namespace uopd::devices {

// The calling thread is one for background work from now on: nice 10, batch scheduling.
void EnterBackground();
// True for threads that called it.
bool InBackground();

}  // namespace uopd::devices
