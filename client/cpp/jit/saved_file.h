// SPDX-License-Identifier: MIT
// The file of a saved recording, as bytes: what is around the message of
// proto/uopd/recording/v1/recording.proto.
//
//   0   "uopd jit"
//   8   u32  number of the format
//   12  u32  length of the message
//   16  SHA-256 of all that follows
//   48  the message, then the contents of its buffers in order, without anything between them
//
// Numbers are little-endian. The contents are not in the message, since a message is at most 2 GiB
// large.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

#include "core/base/status.h"
#include "uopd/recording/v1/recording.pb.h"

namespace uopd::client {

inline constexpr uint32_t kSavedFormat = 1;
inline constexpr size_t kSavedHeader = 48;

struct SavedFile {
  recording::v1::Recording message;
  std::string_view contents;
};

// An error of what is read.
inline absl::Status Broken(std::string_view what) {
  return absl::InvalidArgumentError("Jit: a saved recording is broken: " + std::string(what));
}

// A file with room for so many bytes of contents, which are its last ones. RESOURCE_EXHAUSTED if
// the message is too large.
absl::StatusOr<std::string> NewSavedFile(const recording::v1::Recording& message,
                                         uint64_t contents);
// Writes the digest, when the contents are there.
void SealSavedFile(std::string& file);
// INVALID_ARGUMENT: the bytes are no such file, or are damaged. FAILED_PRECONDITION: the format is
// another one. Says nothing about what is in the message.
absl::StatusOr<SavedFile> OpenSavedFile(std::string_view bytes);

}  // namespace uopd::client
