// SPDX-License-Identifier: MIT
// Files that hold a secret: a password, a key, credentials. Daemon and client read theirs with
// this.
#pragma once

#include <string>

#include "absl/status/statusor.h"

namespace uopd {

// The bytes of the file, without line ends behind them. Errors name the file and never its content:
// NOT_FOUND; INVALID_ARGUMENT for a file that is no regular file, is empty or larger than 64 KiB;
// PERMISSION_DENIED for a file that every user of the machine may read or write, unless
// `is_public`.
absl::StatusOr<std::string> ReadSecretFile(const std::string& path, bool is_public = false);

}  // namespace uopd
