// SPDX-License-Identifier: MIT
// The parts of environment keys that say what the code of a kernel depends on.
//
// A kernel becomes code in two steps. Codegen and the renderer choose a source; this depends on
// every fact about the device, also on its number of threads and on its caches. The compiler makes
// an object of the source; this depends on the instructions of the device and on the toolchain
// only. So devices with the same instructions share the object of a kernel wherever the same source
// was chosen for them.
#pragma once
#include <string>

#include "core/base/target/target.h"

namespace uopd::engine {

// Every version and every fact about the device that decides which source a kernel gets. It is part
// of the environment keys of tuning, and its digest is part of those of choices. It does not
// contain the device's name, so equal devices share these.
std::string CodeEnvironment(const Target& target);

// What decides the object that the compiler makes of a source, and where it can run. It is part of
// the environment key of kernels; the digest of their source is in the other part.
std::string ObjectEnvironment(const Target& target);

}  // namespace uopd::engine
