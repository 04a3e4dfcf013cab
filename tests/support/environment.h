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

// The same, with half of the cases under sanitizers, where each takes about six times as long. The
// tests without sanitizers run all of them.
inline int64_t CasesFromEnvironment(const char* name, int64_t usual) {
#ifdef UOPD_SANITIZED
  usual /= 2;
#endif
  return FromEnvironment(name, usual);
}

}  // namespace uopd::test
