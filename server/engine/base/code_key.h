// SPDX-License-Identifier: MIT
// The part of an environment key that says which code a device gets.
#pragma once
#include <string>

#include "core/base/target.h"

namespace uopd::engine {

// Every version and every fact about the device that decides the code of a kernel: part of the
// environment keys of kernels and of tuning. Without the device's name: equal devices share.
std::string CodeEnvironment(const Target& target);

}  // namespace uopd::engine
