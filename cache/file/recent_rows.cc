// SPDX-License-Identifier: MIT
#include "cache/file/recent_rows.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/file.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <optional>
#include <sstream>
#include <utility>
#include <vector>

#include "core/base/bytes.h"
#include "core/base/text.h"
#include "core/base/unique_fd.h"

namespace uopd::cache {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kRecentName = "uopd-recent-";
constexpr std::string_view kRecentHead = "uopd recent rows 1\n";
constexpr std::string_view kAnyRecentHead = "uopd recent rows ";

std::string EncodeRecent(const Row& row) {
  std::string fields;
  for (const std::string* text :
       {&row.store, &row.semantic, &row.environment, &row.value, &row.checksum})
    PutString(fields, *text);
  for (const int64_t number : {row.cost_us, row.created_us, row.last_used_us, row.fence})
    PutSigned(fields, number);
  std::string out;
  PutString(out, fields);
  return out;
}

std::optional<Row> DecodeRecent(const std::string& fields) {
  Row row;
  ByteReader in(fields);
  for (std::string* text :
       {&row.store, &row.semantic, &row.environment, &row.value, &row.checksum}) {
    if (!in.String(*text)) return std::nullopt;
  }
  for (int64_t* number : {&row.cost_us, &row.created_us, &row.last_used_us, &row.fence}) {
    if (!in.Signed(*number)) return std::nullopt;
  }
  if (!in.done() || Checksum(row) != row.checksum) return std::nullopt;
  return row;
}

// nullopt: the file cannot be read now.
std::optional<std::vector<Row>> ReadRecent(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) return std::nullopt;
  std::ostringstream copy;
  copy << in.rdbuf();
  if (in.bad()) return std::nullopt;
  const std::string bytes = std::move(copy).str();
  std::vector<Row> out;
  if (!bytes.starts_with(kRecentHead)) {
    if (bytes.starts_with(kAnyRecentHead))
      return std::nullopt;  // a daemon of another version reads it
    return out;
  }
  ByteReader reader(std::string_view(bytes).substr(kRecentHead.size()));
  for (std::string fields; !reader.done() && reader.String(fields);) {
    auto row = DecodeRecent(fields);
    if (!row) break;
    out.push_back(*std::move(row));
  }
  return out;
}

}  // namespace

RecentRows::RecentRows(std::string folder) : folder_(std::move(folder)) {
  if (folder_.empty()) return;
  // It gets its name when it is locked: a file without a lock is free to be taken over.
  std::string hidden = Cat(folder_, "/.", kRecentName, "XXXXXX");
  fd_ = mkostemp(hidden.data(), O_APPEND | O_CLOEXEC);
  if (fd_ < 0) return;
  std::string path = Cat(folder_, "/", hidden.substr(folder_.size() + 2));
  const bool usable = flock(fd_, LOCK_EX | LOCK_NB) == 0 &&
                      write(fd_, kRecentHead.data(), kRecentHead.size()) ==
                          static_cast<ssize_t>(kRecentHead.size()) &&
                      rename(hidden.c_str(), path.c_str()) == 0;
  if (usable) {
    path_ = std::move(path);
    return;
  }
  unlink(hidden.c_str());
  close(std::exchange(fd_, -1));
}

RecentRows::~RecentRows() {
  const MutexLock lock(mu_);
  if (fd_ < 0) return;
  if (size_ == 0) unlink(path_.c_str());
  close(fd_);
}

void RecentRows::Keep(const Row& row) {
  if (fd_ < 0 || SizeOf(row) > kMaxBytes) return;
  const std::string record = EncodeRecent(row);
  const auto bytes = static_cast<int64_t>(record.size());
  const MutexLock lock(mu_);
  if (size_ + bytes > kMaxBytes) return;
  const ssize_t written = write(fd_, record.data(), record.size());
  if (written == static_cast<ssize_t>(record.size())) {
    size_ += bytes;
  } else if (written > 0) {  // a part of a record would hide those after it
    [[maybe_unused]] const int cut = ftruncate(fd_, static_cast<off_t>(kRecentHead.size()) + size_);
  }
}

void RecentRows::Clear() {
  const MutexLock lock(mu_);
  if (fd_ < 0 || size_ == 0) return;
  if (ftruncate(fd_, static_cast<off_t>(kRecentHead.size())) == 0) size_ = 0;
}

void RecentRows::TakeOver(const std::function<absl::Status(Row)>& take) {
  if (folder_.empty()) return;
  std::vector<std::string> paths;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder_, error)) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with(kRecentName) && entry.path() != path_) paths.push_back(entry.path());
  }
  for (const std::string& path : paths) {
    const UniqueFd file(open(path.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW));
    if (!file || flock(file.get(), LOCK_EX | LOCK_NB) != 0) continue;  // its process lives
    auto rows = ReadRecent(path);
    if (!rows) continue;  // the next daemon tries again
    bool taken = true;
    for (Row& row : *rows) taken = taken && take(std::move(row)).ok();
    if (taken) unlink(path.c_str());
  }
}

}  // namespace uopd::cache
