// SPDX-License-Identifier: MIT
// What the binding knows of the whole process: the folder of the package, and the epoch (binding.h).
#pragma once
#include <string>

namespace uopd::python {

// The folder of the Python sources, with a slash at its end. Frames of its files are no callers.
std::string& PackageFolder();
// In the child after fork().
void NewEpoch();

}  // namespace uopd::python
