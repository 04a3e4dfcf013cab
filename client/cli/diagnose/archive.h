// SPDX-License-Identifier: MIT
// A few texts as files in one .tar.gz, made by the system's tar.
#pragma once
#include <map>
#include <string>

#include "absl/status/status.h"

namespace uopd::cli {

// Writes `files` (contents by name) as files of `folder` into an archive that only this user can read. Errors: of WriteFile;
// FAILED_PRECONDITION: there is no tar, or it failed.
absl::Status WriteArchive(const std::string& path, const std::string& folder,
                          const std::map<std::string, std::string>& files);

}  // namespace uopd::cli
