// SPDX-License-Identifier: MIT
// Files that a model names beside itself. Internal to the library.
#pragma once
#include <string>
#include <string_view>

#include "client/cpp/state/regular_file.h"

namespace uopd::client {

// A file by its path below the folder of a model, for a path that nobody trusts. A symbolic link at
// its end or on its way may lead to a file below the folder. From a snapshot of the Hugging Face
// Hub's cache (REPOSITORY/snapshots/REVISION) it may also lead to a file of REPOSITORY/blobs.
// INVALID_ARGUMENT: it leads elsewhere, or RegularFile::OpenBeneath says so. `shown` is the path in
// messages.
absl::StatusOr<RegularFile> OpenInModelFolder(const UniqueFd& folder, std::string_view path,
                                              const std::string& shown);

}  // namespace uopd::client
