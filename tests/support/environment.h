// SPDX-License-Identifier: MIT
// Sizes of tests that a developer may change: how many graphs a fuzz test makes, from which seed.
#pragma once
#include <cstdint>
#include <cstdlib>

namespace uopd::test {

// The whole number in the environment variable `name`; `otherwise` if the variable is not set.
inline int64_t FromEnvironment(const char* name, int64_t otherwise) {
  const char* text = std::getenv(name);
  return text != nullptr ? std::atoll(text) : otherwise;
}

}  // namespace uopd::test
