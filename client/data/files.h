// SPDX-License-Identifier: MIT
// Files that a user names: a pipe or /dev/stdin may be one, too. Errors name the file. NOT_FOUND:
// it cannot be opened. INVALID_ARGUMENT: it is a folder, which can be opened and has no bytes.
#pragma once
#include <cstddef>
#include <fstream>
#include <string>

#include "absl/status/statusor.h"

namespace uopd::client {

inline constexpr size_t kMostFileBytes = size_t{4} << 30;
inline constexpr size_t kMostGraphBytes = size_t{256} << 20;  // of a graph in the textual form
// All bytes. RESOURCE_EXHAUSTED: they are more than `most`.
absl::StatusOr<std::string> ReadFile(const std::string& path, size_t most = kMostFileBytes);

absl::StatusOr<std::ifstream> OpenInput(const std::string& path);

}  // namespace uopd::client
