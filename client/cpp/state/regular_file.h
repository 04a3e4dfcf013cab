// SPDX-License-Identifier: MIT
// A regular file of which parts are read. Internal to the library.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "core/base/unique_fd.h"

namespace uopd::client {

class RegularFile {
 public:
  // INVALID_ARGUMENT: the path names no regular file. Opening does not wait for the other end of a
  // pipe.
  static absl::StatusOr<RegularFile> Open(const std::string& path);
  // A file below a folder, for a path that nobody trusts. INVALID_ARGUMENT: the path is empty,
  // absolute or has a name `..`, or a symbolic link or something else than a folder is on its way,
  // or what it names is no regular file. `shown` is the path in messages.
  static absl::StatusOr<RegularFile> OpenBeneath(const UniqueFd& folder, std::string_view path,
                                                 const std::string& shown);

  const std::string& path() const { return path_; }  // as messages show it
  uint64_t bytes() const { return bytes_; }          // when it was opened
  // Fills `out` from a place in the file. DATA_LOSS if the file ends before.
  absl::Status ReadAt(uint64_t at, std::span<char> out) const;

 private:
  // Takes an open file.
  static absl::StatusOr<RegularFile> Of(UniqueFd fd, const std::string& path);

  std::string path_;
  UniqueFd fd_;
  uint64_t bytes_ = 0;
};

}  // namespace uopd::client
