// SPDX-License-Identifier: MIT
#include "core/base/secret_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "absl/status/status.h"
#include "core/base/status.h"
#include "core/base/text.h"
#include "core/base/unique_fd.h"

namespace uopd {
namespace {

constexpr size_t kMaxSecretBytes = size_t{64} << 10;

}  // namespace

absl::StatusOr<std::string> ReadSecretFile(const std::string& path, bool is_public) {
  const UniqueFd file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (file.get() < 0)
    return absl::NotFoundError(Cat("The file ", path, " cannot be opened: ", strerror(errno)));
  struct stat facts = {};
  if (fstat(file.get(), &facts) != 0 || !S_ISREG(facts.st_mode))
    return Invalid(Cat(path, " is not a regular file."));
  if (!is_public && (facts.st_mode & 0007) != 0) {
    return absl::PermissionDeniedError(Cat(
        "The file ", path, " holds a secret, but every user may read or write it. Use chmod 600."));
  }
  std::string text(kMaxSecretBytes + 1, '\0');
  size_t size = 0;
  while (size < text.size()) {
    const ssize_t got = read(file.get(), text.data() + size, text.size() - size);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0)
      return absl::UnavailableError(Cat("The file ", path, " cannot be read: ", strerror(errno)));
    if (got == 0) break;
    size += static_cast<size_t>(got);
  }
  if (size > kMaxSecretBytes) return Invalid(Cat("The file ", path, " is larger than 64 KiB."));
  text.resize(size);
  while (!text.empty() && (text.back() == '\n' || text.back() == '\r')) text.pop_back();
  if (text.empty()) return Invalid(Cat("The file ", path, " is empty."));
  return text;
}

}  // namespace uopd
