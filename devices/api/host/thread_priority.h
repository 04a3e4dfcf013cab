// SPDX-License-Identifier: MIT
// Low priority for threads whose work nobody waits for.
//
// A thread lowers its own priority and keeps the low priority: raising it again needs a privilege.
// Devices whose kernels run on the host respect this: what a background thread launches runs on
// threads of the same low priority.
#pragma once

namespace uopd::devices {

// From now on the calling thread does background work: nice 10, batch scheduling.
void EnterBackground();
// True for threads that have called EnterBackground.
bool InBackground();

}  // namespace uopd::devices
