// SPDX-License-Identifier: MIT
#include "client/cli/bundle_file.h"

#include <cerrno>
#include <cstring>
#include <fstream>

#include "core/base/text.h"

namespace uopd::cli {
namespace {

// A chunk completes at most some thousands of records, so an answer fits in a message.
constexpr size_t kChunk = 256 << 10;

}  // namespace

absl::Status SendBundle(client::Session& session, const std::string& path, bool dry_run,
                        const std::function<void(const v1::ImportCacheResponse&)>& answer) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return absl::NotFoundError(Cat("cannot open ", path, ": ", std::strerror(errno)));
  const absl::Status status = session.ImportCache(
      dry_run,
      [&]() -> absl::StatusOr<std::string> {
        std::string bytes(kChunk, '\0');
        file.read(bytes.data(), static_cast<std::streamsize>(bytes.size()));
        if (file.bad()) return absl::UnavailableError("the file cannot be read");
        bytes.resize(static_cast<size_t>(file.gcount()));
        return bytes;
      },
      answer);
  return status.ok() ? status : WithFrame(status, Cat("reading ", path));
}

}  // namespace uopd::cli
