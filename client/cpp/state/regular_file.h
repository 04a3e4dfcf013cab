// SPDX-License-Identifier: MIT
// A regular file of which parts are read. Internal to the library.
#pragma once
#include <cstdint>
#include <span>
#include <string>

#include "absl/status/statusor.h"
#include "core/base/unique_fd.h"

namespace uopd::client {

class RegularFile {
 public:
  // INVALID_ARGUMENT: the path names no regular file. Opening does not wait for the other end of a
  // pipe.
  static absl::StatusOr<RegularFile> Open(const std::string& path);

  const std::string& path() const { return path_; }
  uint64_t bytes() const { return bytes_; }  // when it was opened
  // Fills `out` from a place in the file. DATA_LOSS if the file ends before.
  absl::Status ReadAt(uint64_t at, std::span<char> out) const;

 private:
  std::string path_;
  UniqueFd fd_;
  uint64_t bytes_ = 0;
};

}  // namespace uopd::client
