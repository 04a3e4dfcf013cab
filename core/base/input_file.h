// SPDX-License-Identifier: MIT
// Files whose names come from users and settings, read so that nothing that may lie at the name
// does harm: a pipe that nobody writes would hold up the reader for ever, a device would fill the
// memory, and a folder is no text.
#pragma once
#include <sys/types.h>

#include <cstddef>
#include <string>

#include "absl/status/statusor.h"

namespace uopd {

// The bytes of the file; of /dev/null none. Errors name the file: NOT_FOUND: it cannot be opened;
// INVALID_ARGUMENT: it is no regular file, or larger than `max_bytes`; that of a read that failed.
// `mode`, if given, becomes the mode of the file that was read.
absl::StatusOr<std::string> ReadInputFile(const std::string& path, size_t max_bytes,
                                          mode_t* mode = nullptr);

}  // namespace uopd
