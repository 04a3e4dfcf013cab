// SPDX-License-Identifier: MIT
// Files whose names come from users and settings, written so that nothing else is touched: in a
// folder that others may write, somebody may have put a link, a pipe or a device at the name.
//
//   the name is free, or of a regular file   a new file is written beside it, under a name that
//                                            nobody can foresee, and takes its place when it is
//                                            whole (Keep)
//   /dev/stdout, /dev/stderr, /dev/fd/N,     a stream: written as it is, and never replaced
//   /proc/self/fd/N, /dev/null
//   anything else                            INVALID_ARGUMENT: a link, a pipe, a device, a socket,
//                                            a folder
//
// A regular file of this user that is replaced gives its mode to the new one, if Options does not
// say otherwise. Errors name the file.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "core/base/unique_fd.h"

namespace uopd {

// Whether `path` is one of the names of streams above.
bool NamesStream(std::string_view path);

// What `path` stands for, if it is a symbolic link that this user or root has made; `path` if it is
// no link. INVALID_ARGUMENT: a link of somebody else is on the way. The names of streams stay as
// they are.
absl::StatusOr<std::string> FollowOwnLinks(const std::string& path);

class OutputFile {
 public:
  struct Options {
    unsigned mode = 0666;  // of a new file; the umask takes its part
    bool own_links =
        false;  // a link is taken for what FollowOwnLinks says, instead of being refused
    bool keeps_mode = true;  // of a file that is replaced
    bool durable = false;    // Keep waits for the disk
  };

  static absl::StatusOr<OutputFile> Create(const std::string& path, const Options& options);
  static absl::StatusOr<OutputFile> Create(const std::string& path) { return Create(path, {}); }
  // A file that was not kept goes away.
  ~OutputFile();
  OutputFile(OutputFile&&) noexcept;
  OutputFile& operator=(OutputFile&&) noexcept;

  absl::Status Write(std::string_view bytes);
  // From now on the file has its name. Called at most once.
  absl::Status Keep();
  bool is_stream() const;
  uint64_t bytes() const;  // written so far
  // For a file that is written on after Keep.
  UniqueFd Release();

 private:
  struct State;
  explicit OutputFile(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

// The whole file at once: it has the old contents or the new ones.
absl::Status WriteFile(const std::string& path, std::string_view contents,
                       const OutputFile::Options& options);
inline absl::Status WriteFile(const std::string& path, std::string_view contents) {
  return WriteFile(path, contents, {});
}

}  // namespace uopd
