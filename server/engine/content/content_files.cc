// SPDX-License-Identifier: MIT
#include "server/engine/content/content_files.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "core/base/output_file.h"
#include "core/base/secret_file.h"
#include "core/base/telemetry/log.h"
#include "core/base/telemetry/metrics.h"
#include "core/base/text.h"
#include "core/base/unique_fd.h"
#include "server/engine/base/random_id.h"

namespace uopd::engine {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kMagic{"uopd-content-1\n\0", 16};
constexpr size_t kPieceBytes = 1 << 20;
constexpr char kKeyFile[] = "key";
constexpr std::chrono::hours kAbandoned{1};

std::string HeaderOf(const Digest& tag, uint64_t bytes) {
  std::string out = Cat(kMagic, tag.view());
  for (int i = 0; i < 8; ++i) out += static_cast<char>(bytes >> (8 * i));
  out.resize(ContentFiles::kHeaderBytes, '\0');
  return out;
}

bool ReadHex(std::string_view text, Digest* out) {
  if (text.size() != 64 || !std::ranges::all_of(text, absl::ascii_isxdigit)) return false;
  return out->FromBytes(absl::HexStringToBytes({text.data(), text.size()}));
}

absl::Status ReadAt(int fd, char* out, size_t bytes, uint64_t offset) {
  while (bytes > 0) {
    const ssize_t got = pread(fd, out, bytes, static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return absl::DataLossError(got < 0 ? std::strerror(errno) : "it is too short");
    out += got;
    offset += static_cast<uint64_t>(got);
    bytes -= static_cast<size_t>(got);
  }
  return absl::OkStatus();
}

UniqueFd OpenToRead(const std::string& path) {
  return UniqueFd(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
}

// Looks at the header alone. False: it is no file of a content.
bool ReadHeader(const std::string& path, Digest* tag, uint64_t* bytes) {
  const UniqueFd fd = OpenToRead(path);
  struct stat is{};
  std::array<char, ContentFiles::kHeaderBytes> header;
  if (!fd || fstat(fd.get(), &is) != 0 || !S_ISREG(is.st_mode) ||
      !ReadAt(fd.get(), header.data(), header.size(), 0).ok())
    return false;
  const std::string_view all(header.data(), header.size());
  tag->FromBytes(all.substr(16, 32));
  *bytes = static_cast<uint64_t>(is.st_size) - header.size();
  return all == HeaderOf(*tag, *bytes);
}

}  // namespace

ContentFiles::ContentFiles(std::string folder, int64_t max_bytes)
    : folder_(std::move(folder)), max_bytes_(max_bytes) {
  const absl::Status opened = Open();
  if (opened.ok()) {
    Scan();
    return;
  }
  if (!folder_.empty())
    UOPD_LOG(kWarn, "constants are not kept on disk", {"folder", folder_}, {"why", opened});
  folder_.clear();
  if (const auto a = RandomId(), b = RandomId(); a.ok() && b.ok()) key_ = HashBytes(Cat(*a, *b));
}

absl::Status ContentFiles::Open() {
  if (folder_.empty()) return absl::NotFoundError("there is no folder");
  std::error_code error;
  fs::create_directory(folder_, error);  // the daemon has made the data folder, or has none
  if (error) return absl::UnavailableError(Cat("making ", folder_, ": ", error.message()));
  fs::permissions(folder_, fs::perms::owner_all, error);
  const std::string path = Cat(folder_, "/", kKeyFile);
  if (!fs::exists(path, error)) {
    UOPD_ASSIGN(const std::string a, RandomId());
    UOPD_ASSIGN(const std::string b, RandomId());
    UOPD_TRY(WriteFile(path, Cat(HashBytes(Cat(a, b)).Hex(), "\n"), {.mode = 0600}));
  }
  UOPD_ASSIGN(const std::string text, ReadSecretFile(path));
  if (!ReadHex(text, &key_)) return absl::DataLossError(Cat(path, " is no key"));
  return absl::OkStatus();
}

// Files that are nothing, such as those that a killed daemon has begun to write, go. Another daemon
// of the folder may be writing a new one.
void ContentFiles::Scan() {
  struct Found {
    File file;
    fs::file_time_type used;
  };
  std::vector<Found> all;
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder_, error)) {
    const std::string name = entry.path().filename();
    if (name == kKeyFile) continue;
    Found found;
    if (ReadHex(name, &found.file.sha256) && found.file.sha256.Hex() == name &&
        ReadHeader(entry.path(), &found.file.tag, &found.file.bytes)) {
      found.used = entry.last_write_time(error);
      all.push_back(found);
    } else if (entry.symlink_status(error).type() == fs::file_type::regular &&
               entry.last_write_time(error) < fs::file_time_type::clock::now() - kAbandoned) {
      fs::remove(entry.path(), error);
    }
  }
  std::ranges::sort(all, {}, &Found::used);
  MutexLock lock(mu_);
  for (const Found& found : all) Add(found.file);
  MakeRoom(0);
}

std::string ContentFiles::PathOf(const Digest& sha256) const {
  return Cat(folder_, "/", sha256.Hex());
}

void ContentFiles::Add(const File& file) {
  bytes_ += file.size();
  by_name_[file.sha256] = files_.insert(files_.end(), file);
}

bool ContentFiles::MakeRoom(int64_t bytes) {
  if (bytes > max_bytes_) return false;
  while (!files_.empty() && (bytes_ + bytes > max_bytes_ || files_.size() >= kMostFiles)) {
    const File& oldest = files_.front();
    unlink(PathOf(oldest.sha256).c_str());
    bytes_ -= oldest.size();
    by_name_.erase(oldest.sha256);
    files_.pop_front();
    metrics::ContentEvictions({"disk"}).Increment();
  }
  return true;
}

void ContentFiles::Forget(const Digest& sha256, bool damaged) {
  MutexLock lock(mu_);
  const auto at = by_name_.find(sha256);
  if (at == by_name_.end()) return;
  if (damaged) {
    unlink(PathOf(sha256).c_str());
    metrics::ContentDamaged().Increment();
  }
  bytes_ -= at->second->size();
  files_.erase(at->second);
  by_name_.erase(at);
}

std::optional<Digest> ContentFiles::TagOf(const Digest& sha256, uint64_t bytes) const {
  MutexLock lock(mu_);
  const auto at = by_name_.find(sha256);
  if (at == by_name_.end() || at->second->bytes != bytes) return std::nullopt;
  return at->second->tag;
}

absl::Status ContentFiles::Read(const Digest& sha256, Taker take) {
  uint64_t bytes = 0;
  {
    MutexLock lock(mu_);
    const auto at = by_name_.find(sha256);
    if (at == by_name_.end()) return absl::NotFoundError("no file has the content");
    bytes = at->second->bytes;
    files_.splice(files_.end(), files_, at->second);
  }
  const UniqueFd fd = OpenToRead(PathOf(sha256));
  if (!fd) {
    Forget(sha256, false);  // another daemon has removed it
    return absl::NotFoundError("the file of the content is gone");
  }
  futimens(fd.get(), nullptr);  // so that the order of use survives a restart
  posix_fadvise(fd.get(), 0, 0, POSIX_FADV_SEQUENTIAL);
  Hasher hasher;
  std::string piece;
  absl::Status damage;
  for (uint64_t at = 0; damage.ok() && at < bytes; at += piece.size()) {
    piece.resize(static_cast<size_t>(std::min<uint64_t>(kPieceBytes, bytes - at)));
    damage = ReadAt(fd.get(), piece.data(), piece.size(), kHeaderBytes + at);
    if (!damage.ok()) break;
    hasher.Update(piece);
    UOPD_TRY(take(at, piece));
  }
  if (damage.ok() && hasher.Finish() == sha256) return absl::OkStatus();
  if (damage.ok()) damage = absl::DataLossError("its contents have another SHA-256");
  UOPD_LOG(kWarn, "the file of a constant is damaged and was removed", {"sha256", sha256.Hex()},
           {"bytes", bytes}, {"why", damage});
  Forget(sha256, true);
  return absl::NotFoundError("the file of the content was damaged");
}

absl::Status ContentFiles::Write(const ContentHasher::Names& names, uint64_t bytes, Giver give) {
  if (folder_.empty()) return absl::OkStatus();
  const File file{.sha256 = names.sha256, .tag = names.tag, .bytes = bytes};
  {
    MutexLock lock(mu_);
    const auto at = by_name_.find(names.sha256);
    // A file with another tag is damaged, or of another key.
    if (at != by_name_.end() && at->second->tag == names.tag) return absl::OkStatus();
    if (at == by_name_.end() && !MakeRoom(file.size())) return absl::OkStatus();
  }
  UOPD_ASSIGN(OutputFile out, OutputFile::Create(PathOf(names.sha256), {.mode = 0600}));
  UOPD_TRY(out.Write(HeaderOf(names.tag, bytes)));
  UOPD_TRY(give([&](uint64_t, std::string_view piece) { return out.Write(piece); }));
  UOPD_TRY(out.Keep());
  Forget(names.sha256, false);  // the one that was replaced
  MutexLock lock(mu_);
  if (MakeRoom(file.size())) {
    Add(file);
  } else {
    unlink(PathOf(names.sha256).c_str());  // the limit has become smaller meanwhile
  }
  return absl::OkStatus();
}

void ContentFiles::set_max_bytes(int64_t most) {
  MutexLock lock(mu_);
  max_bytes_ = most;
  MakeRoom(0);
}

ContentFiles::Usage ContentFiles::usage() const {
  MutexLock lock(mu_);
  return {.bytes = bytes_, .most_bytes = max_bytes_, .contents = files_.size()};
}

}  // namespace uopd::engine
