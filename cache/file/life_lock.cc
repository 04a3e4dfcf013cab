// SPDX-License-Identifier: MIT
#include "cache/file/life_lock.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <charconv>
#include <cstdint>
#include <fstream>
#include <random>

#include "core/base/text.h"

namespace uopd::cache {
namespace {

constexpr int64_t kMostBytes = int64_t{1} << 62;
constexpr int kTries = 8;

// A lock of the open file, not of the process: SQLite's locks, and a second LifeLock of this
// process, have nothing to do with it.
struct flock LockOf(int64_t byte) {
  struct flock out = {};
  out.l_type = F_WRLCK;
  out.l_whence = SEEK_SET;
  out.l_start = byte;
  out.l_len = 1;
  return out;
}

// Empty: the system does not say.
std::string PlaceOf(int file) {
  std::string boot;
  std::getline(std::ifstream("/proc/sys/kernel/random/boot_id"), boot);
  struct stat facts = {};
  if (boot.empty() || fstat(file, &facts) != 0) return {};
  return Cat(boot, " ", facts.st_dev, " ", facts.st_ino, " ");
}

}  // namespace

LifeLock::LifeLock(const std::string& path)
    : file_(open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600)) {
  if (!file_) return;
  place_ = PlaceOf(file_.get());
  if (place_.empty()) return;
  std::random_device random;
  std::uniform_int_distribution<int64_t> bytes(0, kMostBytes);
  for (int i = 0; i < kTries && mark_.empty(); ++i) {
    const int64_t byte = bytes(random);
    struct flock lock = LockOf(byte);
    if (fcntl(file_.get(), F_OFD_SETLK, &lock) == 0) mark_ = Cat(place_, byte);
  }
}

bool LifeLock::IsDead(std::string_view mark) const {
  if (!file_ || place_.empty() || mark == mark_ || !mark.starts_with(place_)) return false;
  const std::string_view number = mark.substr(place_.size());
  int64_t byte = -1;
  const auto read = std::from_chars(number.data(), number.data() + number.size(), byte);
  if (read.ec != std::errc() || read.ptr != number.data() + number.size() || byte < 0 ||
      byte > kMostBytes)
    return false;
  struct flock lock = LockOf(byte);
  return fcntl(file_.get(), F_OFD_GETLK, &lock) == 0 && lock.l_type == F_UNLCK;
}

}  // namespace uopd::cache
