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

// Without waiting for the other end of a pipe.
constexpr int kHowToOpen = O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY;

absl::Status FileError(std::string_view doing, const std::string& path) {
  return absl::ErrnoToStatus(errno, Cat(doing, " ", path));
}

}  // namespace

absl::StatusOr<RegularFile> RegularFile::Of(UniqueFd fd, const std::string& path) {
  RegularFile out;
  out.path_ = path;
  out.fd_ = std::move(fd);
  if (!out.fd_) return FileError("opening", path);
  struct stat about{};
  if (fstat(out.fd_.get(), &about) != 0) return FileError("opening", path);
  if (!S_ISREG(about.st_mode)) return Invalid(Cat(path, " is no regular file"));
  out.bytes_ = static_cast<uint64_t>(about.st_size);
  return out;
}

absl::StatusOr<RegularFile> RegularFile::Open(const std::string& path) {
  return Of(UniqueFd(open(path.c_str(), kHowToOpen)), path);
}

absl::StatusOr<RegularFile> RegularFile::OpenBeneath(const UniqueFd& folder, std::string_view path,
                                                     const std::string& shown) {
  if (path.empty() || path[0] == '/' || path.find('\0') != std::string_view::npos)
    return Invalid(Cat(shown, " is no path below a folder"));
  UniqueFd inner;  // the folder that the walk has come to; empty: `folder`
  for (;;) {
    const size_t slash = path.find('/');
    const std::string name(path.substr(0, slash));
    const int at = inner ? inner.get() : folder.get();
    if (name == "..") return Invalid(Cat(shown, " leads out of its folder"));
    if (slash == std::string_view::npos) {
      if (name.empty()) return Invalid(Cat(shown, " is no regular file"));
      UniqueFd fd(openat(at, name.c_str(), kHowToOpen | O_NOFOLLOW));
      if (!fd && errno == ELOOP) return Invalid(Cat(shown, " is a symbolic link"));
      return Of(std::move(fd), shown);
    }
    path.remove_prefix(slash + 1);
    if (name.empty() || name == ".") continue;
    // Without O_PATH a folder would have to be readable. With O_DIRECTORY, a link is ENOTDIR.
    UniqueFd next(openat(at, name.c_str(), O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    if (!next && (errno == ENOTDIR || errno == ELOOP)) {
      return Invalid(Cat(shown, " goes through a symbolic link, or through what is no folder"));
    }
    if (!next) return FileError("opening", shown);
    inner = std::move(next);
  }
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
