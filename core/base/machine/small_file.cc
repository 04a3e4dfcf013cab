// SPDX-License-Identifier: MIT
#include "core/base/machine/small_file.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>

#include "core/base/unique_fd.h"

namespace uopd {

std::optional<std::string> ReadSmallFile(const std::string& path, size_t max_bytes) {
  const UniqueFd file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!file) return std::nullopt;
  std::string text;
  while (text.size() < max_bytes) {
    const size_t had = text.size();
    text.resize(std::min(max_bytes, std::max<size_t>(2 * had, 4096)));
    const ssize_t got = read(file.get(), text.data() + had, text.size() - had);
    text.resize(had + static_cast<size_t>(std::max<ssize_t>(got, 0)));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return std::nullopt;
    if (got == 0) break;
  }
  return text;
}

}  // namespace uopd
