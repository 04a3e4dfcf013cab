// SPDX-License-Identifier: MIT
#include "client/data/files.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>

#include "core/base/status.h"
#include "core/base/text.h"

namespace uopd::client {
namespace {

constexpr size_t kPiece = 1 << 16;

}  // namespace

absl::StatusOr<std::string> ReadFile(const std::string& path, size_t most) {
  UOPD_ASSIGN(std::ifstream file, OpenInput(path));
  std::string out;
  for (size_t room = kPiece; !file.eof(); room = std::max(kPiece, out.size())) {
    const size_t had = out.size();
    out.resize(had + room);
    file.read(out.data() + had, static_cast<std::streamsize>(room));
    out.resize(had + static_cast<size_t>(file.gcount()));
    if (file.bad()) return absl::UnknownError(Cat("cannot read ", path));
    if (out.size() > most)
      return absl::ResourceExhaustedError(Cat(path, " has more than ", most, " bytes"));
  }
  return out;
}

absl::StatusOr<std::ifstream> OpenInput(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file)
    return absl::NotFoundError(
        Cat("cannot open ", path, ": ", std::strerror(errno)));  // NOLINT: one thread
  std::error_code error;
  if (std::filesystem::is_directory(path, error)) return Invalid(Cat(path, " is a folder"));
  return file;
}

}  // namespace uopd::client
