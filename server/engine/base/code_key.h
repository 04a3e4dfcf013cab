// SPDX-License-Identifier: MIT
// The part of an environment key that decides which code a device gets.
#pragma once
#include <string>

#include "core/base/target/target.h"

namespace uopd::engine {

// Every version and every fact about the device that decides the code of a kernel. It is part of
// the environment keys of kernels and of tuning. It does not contain the device's name, so equal
// devices share kernels and tuning.
std::string CodeEnvironment(const Target& target);

}  // namespace uopd::engine
