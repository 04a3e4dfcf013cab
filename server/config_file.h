// SPDX-License-Identifier: MIT
// Reads a TOML configuration file into a Config.
#pragma once
#include <string>

#include "core/base/config.h"

namespace uopd {

// Every key of every table, as ConfigSource::kFile. NOT_FOUND for a file that cannot be opened, INVALID_ARGUMENT with line
// and column for one that cannot be parsed, and what Config::Set says of keys and values.
absl::Status ReadConfigFile(const std::string& path, Config& config);

}  // namespace uopd
