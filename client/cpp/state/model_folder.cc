// SPDX-License-Identifier: MIT
#include "client/cpp/state/model_folder.h"

#include <fcntl.h>

#include <cerrno>
#include <filesystem>
#include <system_error>

#include "core/base/status.h"
#include "core/base/text.h"

namespace uopd::client {
namespace {

namespace fs = std::filesystem;

// `to` as a path below `from`; empty: it is not below it.
std::string PathBelow(const fs::path& from, const fs::path& to) {
  const fs::path out = to.lexically_relative(from);
  return out.empty() || out == "." || *out.begin() == ".." ? "" : out.string();
}

}  // namespace

absl::StatusOr<RegularFile> OpenInModelFolder(const UniqueFd& folder, std::string_view path,
                                              const std::string& shown) {
  absl::StatusOr<RegularFile> plain = RegularFile::OpenBeneath(folder, path, shown);
  if (plain.ok() || !absl::IsInvalidArgument(plain.status())) return plain;
  // The folder may have got another name since it was opened.
  std::error_code error;
  const fs::path here = fs::canonical(Cat("/proc/self/fd/", folder.get()), error);
  if (error) return plain;
  const fs::path there = fs::canonical(here / fs::path(path), error);
  if (error || there == here || path.starts_with('/')) return plain;
  for (const fs::path& name : fs::path(path))
    if (name == "..") return plain;
  // What the links lead to is opened without following a link, so it cannot become another file.
  if (const std::string below = PathBelow(here, there); !below.empty()) {
    if (below == path) return plain;  // no link was there
    return RegularFile::OpenBeneath(folder, below, shown);
  }
  const fs::path repository = here.parent_path().parent_path();
  if (here.parent_path().filename() == "snapshots" && there.parent_path() == repository / "blobs") {
    const UniqueFd blobs(
        open((repository / "blobs").c_str(), O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    if (!blobs) return absl::ErrnoToStatus(errno, Cat("opening the blobs of ", shown));
    return RegularFile::OpenBeneath(blobs, there.filename().string(), shown);
  }
  return Invalid(Cat(shown, " is a link that leads out of the folder of the model"));
}

}  // namespace uopd::client
