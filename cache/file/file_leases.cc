// SPDX-License-Identifier: MIT
#include "cache/file/file_leases.h"

#include <filesystem>
#include <utility>

#include "absl/strings/str_cat.h"
#include "cache/file/lease_schema.h"
#include "cache/file/set_aside.h"
#include "core/base/status.h"

namespace uopd::cache {
namespace {

absl::Status Unknown() { return absl::UnavailableError("The file of the leases cannot be read"); }

}  // namespace

FileLeases::FileLeases(FileLeasesOptions options)
    : options_(std::move(options)),
      path_(absl::StrCat(options_.folder, "/", lease_schema::kFileName)),
      life_(absl::StrCat(options_.folder, "/", lease_schema::kLifeName)),
      local_(options_.now) {}

LeaseFile* FileLeases::File() {
  if (file_ != nullptr && Identify(path_) == file_->id()) return file_.get();
  if (file_ == nullptr && options_.now() < retry_at_us_) return nullptr;
  file_ = nullptr;
  auto opened = OpenOrReplace();
  if (opened.ok()) {
    file_ = *std::move(opened);
    retry_at_us_ = 0;
  } else {
    Drop(opened.status());
  }
  return file_.get();
}

absl::StatusOr<std::unique_ptr<LeaseFile>> FileLeases::OpenOrReplace() {
  const FolderLock folder(path_ + ".lock");
  if (!folder.held()) return absl::PermissionDeniedError("The folder cannot be written");
  auto remove = [this] {
    std::error_code error;  // ignored: opening fails if the files cannot be removed
    std::filesystem::remove(path_ + "-journal", error);
    std::filesystem::remove(path_, error);
  };
  if (std::exchange(damaged_, false)) remove();
  auto file = LeaseFile::Open(path_, options_.busy_timeout_ms, life_);
  if (!absl::IsDataLoss(file.status())) return file;
  remove();
  return LeaseFile::Open(path_, options_.busy_timeout_ms, life_);
}

void FileLeases::Drop(const absl::Status& error) {
  if (absl::IsUnavailable(error) && file_ != nullptr) return;
  damaged_ = absl::IsDataLoss(error) && file_ != nullptr && Identify(path_) == file_->id();
  file_ = nullptr;
  if (damaged_) return;  // the next call makes a new file
  retry_at_us_ = options_.now() + options_.retry_us;
  if (options_.on_failure) {
    options_.on_failure(
        absl::StrCat("The leases of ", path_, " cannot be used: ", StatusText(error)));
  }
}

bool FileLeases::IsLocal(const Digest& address, int64_t token) {
  return local_.CheckNewest(address, token).ok();
}

LeaseResult FileLeases::TryLease(const Digest& address, std::string_view owner, int64_t ttl_us) {
  MutexLock lock(mu_);
  // The second attempt uses the new file, if the first one found the file damaged.
  for (int attempt = 0; attempt < 2; ++attempt) {
    LeaseFile* file = File();
    if (file == nullptr) break;
    auto result = file->TryLease(address, owner, ttl_us, options_.now());
    if (result.ok()) return *std::move(result);
    Drop(result.status());
    if (file_ != nullptr) return {};  // another process has the lock of the file
  }
  return local_.TryLease(address, owner, ttl_us);
}

absl::Status FileLeases::Renew(const Digest& address, int64_t token, int64_t ttl_us) {
  if (IsLocal(address, token)) return local_.Renew(address, token, ttl_us);
  MutexLock lock(mu_);
  LeaseFile* file = File();
  if (file == nullptr) return Unknown();
  absl::Status status = file->Renew(address, token, ttl_us, options_.now());
  if (status.ok() || absl::IsAborted(status)) return status;
  Drop(status);
  return Unknown();
}

absl::Status FileLeases::Release(const Digest& address, int64_t token) {
  if (IsLocal(address, token)) return local_.Release(address, token);
  MutexLock lock(mu_);
  LeaseFile* file = File();
  if (file == nullptr) return Unknown();
  absl::Status status = file->Release(address, token);
  if (status.ok() || absl::IsAborted(status)) return status;
  Drop(status);
  return Unknown();
}

absl::Status FileLeases::CheckNewest(const Digest& address, int64_t token) {
  if (IsLocal(address, token)) return absl::OkStatus();
  MutexLock lock(mu_);
  LeaseFile* file = File();
  if (file == nullptr) return Unknown();
  auto lease = file->Read(address);
  if (lease.ok()) return lease->token == token ? absl::OkStatus() : LeaseLost();
  Drop(lease.status());
  return Unknown();
}

bool FileLeases::IsHeld(const Digest& address) {
  if (local_.IsHeld(address)) return true;
  MutexLock lock(mu_);
  LeaseFile* file = File();
  if (file == nullptr) return false;
  auto lease = file->Read(address);
  if (lease.ok()) return file->IsHeld(*lease, options_.now());
  Drop(lease.status());
  return false;
}

void FileLeases::Took(const Digest& address, int64_t token) {
  MutexLock lock(mu_);
  LeaseFile* file = File();
  if (file == nullptr) return;
  if (absl::Status status = file->PutMark(address, token, options_.now()); !status.ok())
    Drop(status);
}

void FileLeases::Forget(const Digest& address, int64_t token) {
  MutexLock lock(mu_);
  LeaseFile* file = File();
  if (file == nullptr) return;
  if (absl::Status status = file->DropMark(address, token); !status.ok()) Drop(status);
}

std::optional<int64_t> FileLeases::TokenOfDead(const Digest& address) {
  MutexLock lock(mu_);
  LeaseFile* file = File();
  if (file == nullptr) return std::nullopt;
  auto token = file->TokenOfDead(address);
  if (token.ok()) return *token;
  Drop(token.status());
  return std::nullopt;
}

}  // namespace uopd::cache
