// SPDX-License-Identifier: MIT
#include "core/base/input_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "absl/status/status.h"
#include "core/base/machine/process_limits.h"
#include "core/base/status.h"
#include "core/base/text.h"
#include "core/base/unique_fd.h"

namespace uopd {

absl::StatusOr<std::string> ReadInputFile(const std::string& path, size_t max_bytes, mode_t* mode) {
  const UniqueFd file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  if (!file)
    return absl::NotFoundError(Cat("The file ", path, " cannot be opened: ", strerror(errno)));
  if (path == "/dev/null") return std::string();  // people name it for "nothing"
  struct stat facts = {};
  if (fstat(file.get(), &facts) != 0 || !S_ISREG(facts.st_mode))
    return Invalid(Cat(path, " is not a regular file"));
  if (mode != nullptr) *mode = facts.st_mode;
  // The size that the system says is a hint: that of a file in /proc is 0, whatever it holds, and
  // other files may grow.
  size_t room = std::max<size_t>(static_cast<size_t>(facts.st_size) + 1, 4 << 10);
  std::string text;
  while (text.size() <= max_bytes) {
    const size_t had = text.size();
    room = std::max(room, 2 * had);
    text.resize(std::min(max_bytes + 1, room));
    const ssize_t got = read(file.get(), text.data() + had, text.size() - had);
    const int error = errno;
    text.resize(had + static_cast<size_t>(std::max<ssize_t>(got, 0)));
    if (got == 0) return text;
    if (got < 0 && error != EINTR)
      return absl::ErrnoToStatus(error, Cat("The file ", path, " cannot be read"));
  }
  return Invalid(
      Cat("The file ", path, " is larger than ", BytesText(static_cast<int64_t>(max_bytes))));
}

}  // namespace uopd
