// SPDX-License-Identifier: MIT
#include "cache/file/set_aside.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <thread>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace uopd::cache {
namespace {

namespace fs = std::filesystem;
constexpr size_t kKeep = 2;
constexpr std::chrono::hours kUnused{30 * 24};

}  // namespace

FolderLock::FolderLock(const std::string& path)
    : fd_(open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600)) {
  if (fd_ < 0) return;
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(5);
  for (;;) {
    held_ = flock(fd_, LOCK_EX | LOCK_NB) == 0;
    if (held_ || std::chrono::steady_clock::now() >= deadline) return;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
}

FolderLock::~FolderLock() {
  if (fd_ >= 0) close(fd_);
}

absl::StatusOr<std::string> SetAside(const std::string& path, std::string_view kind) {
  const fs::path file(path);
  const std::string prefix = absl::StrCat(file.filename().string(), ".", std::string(kind), "-");
  std::error_code error;
  std::vector<uint64_t> numbers;
  for (fs::directory_iterator it(file.parent_path(), error), end; !error && it != end;
       it.increment(error)) {
    const std::string name = it->path().filename().string();
    uint64_t number;
    if (name.compare(0, prefix.size(), prefix) == 0 &&
        absl::SimpleAtoi(name.substr(prefix.size()), &number)) {
      numbers.push_back(number);
    }
  }
  std::sort(numbers.begin(), numbers.end());
  const std::string base = absl::StrCat(path, ".", std::string(kind), "-");
  std::string target = absl::StrCat(base, numbers.empty() ? 1 : numbers.back() + 1);
  // The journal is renamed first. A database without its journal may be damaged, which is
  // acceptable here. But a new database beside an old journal would become damaged.
  fs::rename(path + "-journal", target + "-journal", error);
  fs::rename(path, target, error);
  if (error) {
    return absl::PermissionDeniedError(absl::StrCat("Cannot rename ", path, ": ", error.message()));
  }
  for (; numbers.size() >= kKeep; numbers.erase(numbers.begin())) {
    fs::remove(absl::StrCat(base, numbers.front()), error);
    fs::remove(absl::StrCat(base, numbers.front(), "-journal"), error);
  }
  return target;
}

void AdoptOldName(const std::string& old_path, const std::string& path) {
  std::error_code error;
  if (fs::exists(path, error) || !fs::exists(old_path, error)) return;
  // The journal first, for the same reason as in SetAside.
  fs::rename(old_path + "-journal", path + "-journal", error);
  fs::rename(old_path, path, error);
}

void RemoveUnused(const std::string& folder, std::string_view prefix, std::string_view suffix) {
  std::error_code error;
  std::vector<fs::path> unused;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    const std::string name = it->path().filename().string();
    if (!name.starts_with(prefix) || !name.ends_with(suffix)) continue;
    std::error_code unknown;
    const fs::file_time_type written = fs::last_write_time(it->path(), unknown);
    if (!unknown && fs::file_time_type::clock::now() - written > kUnused)
      unused.push_back(it->path());
  }
  for (const fs::path& path : unused) {
    fs::remove(path.string() + "-journal", error);
    fs::remove(path, error);
  }
}

absl::Status MakeFolder(const std::string& path) {
  std::error_code error;
  fs::create_directories(path, error);
  if (error && !fs::is_directory(path)) {
    return absl::PermissionDeniedError(
        absl::StrCat("Cannot make the folder ", path, ": ", error.message()));
  }
  return absl::OkStatus();
}

}  // namespace uopd::cache
