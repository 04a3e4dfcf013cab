// SPDX-License-Identifier: MIT
// Identifiers that nobody can guess. Thread-safe.
#pragma once
#include <string>

#include "core/base/status.h"

namespace uopd::engine {

// 128 bits from the operating system's random generator, as 32 hexadecimal digits.
absl::StatusOr<std::string> RandomId();

}  // namespace uopd::engine
