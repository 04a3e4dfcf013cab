// SPDX-License-Identifier: MIT
// What a developer may change about tests: how many graphs a fuzz test makes, from which seed, for
// which device.
#pragma once
#include <cstdint>
#include <cstdlib>
#include <string>

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

// The device, or the list of devices, that UOPD_FUZZ_DEVICE names.
inline std::string NamedDevice(const std::string& otherwise) {
  const char* named = std::getenv("UOPD_FUZZ_DEVICE");
  return named != nullptr && *named != 0 ? named : otherwise;
}

}  // namespace uopd::test
