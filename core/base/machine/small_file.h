// SPDX-License-Identifier: MIT
// Files of /proc and /sys: short, read as a whole, perhaps not there.
#pragma once
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "absl/strings/string_view.h"

namespace uopd {

// For functions of Abseil.
inline absl::string_view ViewOf(std::string_view text) { return {text.data(), text.size()}; }

// At most the first `max_bytes` of the file; nullopt if it cannot be read.
std::optional<std::string> ReadSmallFile(const std::string& path, size_t max_bytes = 64 << 10);

}  // namespace uopd
