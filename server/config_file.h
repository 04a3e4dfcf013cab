// SPDX-License-Identifier: MIT
// Reads a TOML configuration file into a Config.
#pragma once
#include <string>

#include "core/base/config/config.h"

namespace uopd {

// Reads every key of every table, as ConfigSource::kFile. NOT_FOUND: the file cannot be opened.
// INVALID_ARGUMENT: the file cannot be parsed (with line and column). For wrong keys and values,
// the status of Config::Set.
absl::Status ReadConfigFile(const std::string& path, Config& config);

}  // namespace uopd
