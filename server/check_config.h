// SPDX-License-Identifier: MIT
// What can be found out about the settings before anything is opened or begun.
#pragma once
#include "core/base/config/config.h"

namespace uopd {

// Everything that is wrong with settings that a daemon could not serve with: addresses, modes,
// names of devices, files of tokens, keys and certificates. Each problem says where its setting
// comes from. Only reads.
Config::Problems CheckSettings(const Config& config);
// Files and folders that could not be written. A daemon may serve without some of them, but not as
// somebody wanted it.
Config::Problems CheckPlaces(const Config& config);

// --check-config: prints all problems, those given and those of both functions. Returns the exit
// status.
int ReportConfig(const Config& config, Config::Problems problems);

}  // namespace uopd
