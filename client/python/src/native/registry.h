// SPDX-License-Identifier: MIT
// What the binding knows of the whole process: the folder of the package, and the epoch
// (binding.h).
#pragma once
#include <string>

#include "native/binding.h"

namespace uopd::python {

// The folder of the Python sources, with a slash at its end. Frames of its files are no callers.
std::string& PackageFolder();
// Called with the seconds of a long wait, again and again, and with None at its end. None: nobody.
nb::object& ProgressHook();
// False: a client has no room for another call even after `time`. Needs no lock and no GIL.
bool AllHaveRoom(absl::Duration time);
// After CancelAll: waits until all has ended, so that no later call raises what Ctrl-C has raised.
void ForgetCancelled();
// In the child after fork().
void NewEpoch();

// Watches of tuning operations (tune_watch.h). All under the lock of the process.
// Around fork(): nothing of gRPC may run meanwhile. In the child the watches are the parent's.
void PauseWatches();
void ContinueWatches();
void ForgetWatches();
void CloseWatches();

}  // namespace uopd::python
