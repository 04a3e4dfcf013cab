// SPDX-License-Identifier: MIT
// Reads a TOML configuration file into a Config.
#pragma once
#include <string>

#include "core/base/config/config.h"

namespace uopd {

// Reads every key of every table, as ConfigSource::kFile. Adds what is wrong to `problems`, with
// the file's name and the line. NOT_FOUND: the file cannot be opened. INVALID_ARGUMENT: the file
// cannot be parsed, or has something that is no setting. For wrong keys and values, the status of
// Config::Set.
void ReadConfigFile(const std::string& path, Config& config, Config::Problems& problems);

}  // namespace uopd
