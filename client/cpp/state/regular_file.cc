// SPDX-License-Identifier: MIT
#include "client/cpp/state/regular_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "core/base/status.h"
#include "core/base/text.h"

namespace uopd::client {
namespace {

absl::Status FileError(std::string_view doing, const std::string& path) {
  return absl::ErrnoToStatus(errno, Cat(doing, " ", path));
}

}  // namespace

absl::StatusOr<RegularFile> RegularFile::Open(const std::string& path) {
  RegularFile out;
  out.path_ = path;
  // Without waiting for the other end of a pipe.
  out.fd_.Reset(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!out.fd_) return FileError("opening", path);
  struct stat about{};
  if (fstat(out.fd_.get(), &about) != 0) return FileError("opening", path);
  if (!S_ISREG(about.st_mode)) return Invalid(Cat(path, " is no regular file"));
  out.bytes_ = static_cast<uint64_t>(about.st_size);
  return out;
}

absl::Status RegularFile::ReadAt(uint64_t at, std::span<char> out) const {
  while (!out.empty()) {
    const ssize_t n = pread(fd_.get(), out.data(), out.size(), static_cast<off_t>(at));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return FileError("reading", path_);
    if (n == 0) return absl::DataLossError(Cat(path_, " became shorter while it was read"));
    at += static_cast<uint64_t>(n);
    out = out.subspan(static_cast<size_t>(n));
  }
  return absl::OkStatus();
}

}  // namespace uopd::client
