// SPDX-License-Identifier: MIT
#include "cache/file/file_leases.h"

#include <algorithm>
#include <filesystem>
#include <utility>

#include "absl/strings/str_cat.h"
#include "cache/base/lease/tokens.h"
#include "cache/base/row/eviction.h"
#include "cache/file/lease_schema.h"
#include "cache/file/set_aside.h"
#include "cache/sqlite/transaction.h"
#include "core/base/status.h"

namespace uopd::cache {

using sqlite::Database;
using sqlite::Query;
using sqlite::Statement;

namespace {

// The longest time to live of a lease. No owner asks for more, so a lease that would live longer is
// damaged and blocks nobody.
constexpr int64_t kLongestUs = kHourUs;
// Longer than a search that renews its lease takes.
constexpr int64_t kMarksUs = 24 * kHourUs;

absl::Status Unknown() { return absl::UnavailableError("The file of the leases cannot be read"); }

}  // namespace

bool LeaseFile::IsHeld(const Lease& lease, int64_t now_us) const {
  const bool runs = lease.expires_us > now_us && lease.expires_us - now_us <= kLongestUs;
  return runs && !life_.IsDead(lease.mark);
}

absl::StatusOr<std::unique_ptr<LeaseFile>> LeaseFile::Open(const std::string& path,
                                                           int busy_timeout_ms,
                                                           const LifeLock& life) {
  UOPD_ASSIGN(auto db, Database::Open(path, {.busy_timeout_ms = busy_timeout_ms}));
  if (db->read_only()) return absl::PermissionDeniedError("The file may only be read");
  UOPD_TRY(db->Execute(lease_schema::kPragmas));
  UOPD_TRY(db->Execute(lease_schema::kCreate));
  UOPD_ASSIGN(const std::string verdict, db->QueryText(lease_schema::kQuickCheck));
  if (verdict != "ok") return absl::DataLossError("The file of the leases is damaged");
  const auto id = Identify(path);
  if (!id) return absl::NotFoundError("The file of the leases vanished while it was opened");
  return std::unique_ptr<LeaseFile>(new LeaseFile(std::move(db), *id, life));
}

absl::StatusOr<LeaseFile::Lease> LeaseFile::Read(const Digest& address) {
  UOPD_ASSIGN(Statement * statement, db_->Prepared(lease_schema::kSelectLease));
  Query query(*statement);
  UOPD_ASSIGN(const bool found, query.Bind(address.view()).Step());
  if (!found) return Lease{};
  return Lease{std::string(query.Blob(0)), query.Int(1), query.Int(2), std::string(query.Blob(3))};
}

absl::StatusOr<LeaseResult> LeaseFile::TryLease(const Digest& address, std::string_view owner,
                                                int64_t ttl_us, int64_t now_us) {
  sqlite::Transaction transaction(*db_);
  UOPD_TRY(transaction.Begin());
  UOPD_ASSIGN(const Lease held, Read(address));
  if (IsHeld(held, now_us)) {
    return LeaseResult{
        .outcome = LeaseOutcome::kBusy, .expires_us = held.expires_us, .holder = held.owner};
  }
  LeaseResult result{.outcome = LeaseOutcome::kGranted,
                     .expires_us = now_us + std::min(ttl_us, kLongestUs),
                     .holder = std::string(owner)};
  {
    UOPD_ASSIGN(Statement * statement, db_->Prepared(lease_schema::kNextToken));
    Query query(*statement);
    UOPD_ASSIGN(const bool row, query.Bind(now_us).Step());
    if (!row) return absl::DataLossError("The row that counts tokens is missing");
    result.token = query.Int(0);
  }
  if (!IsPlausibleToken(result.token, now_us))
    return absl::DataLossError("The row that counts tokens is damaged");
  UOPD_TRY(
      db_->Run(lease_schema::kTakeLease, address.view(), owner, result.token, result.expires_us));
  if (!life_.mark().empty())
    UOPD_TRY(db_->Run(lease_schema::kPutLife, result.token, std::string_view(life_.mark())));
  // Tokens follow the clock, so a token from more than an hour ago belongs to an owner that is long
  // gone. A missing row refuses such a token just as a newer token does.
  UOPD_TRY(db_->Run(lease_schema::kForgetLeases, now_us - kHourUs));
  UOPD_TRY(db_->Run(lease_schema::kForgetLives, now_us - kHourUs));
  UOPD_TRY(transaction.Commit());
  return result;
}

absl::Status LeaseFile::Renew(const Digest& address, int64_t token, int64_t ttl_us,
                              int64_t now_us) {
  UOPD_TRY(db_->Run(lease_schema::kExtendLease, address.view(), token,
                    now_us + std::min(ttl_us, kLongestUs), now_us));
  return db_->changes() == 1 ? absl::OkStatus() : LeaseLost();
}

absl::Status LeaseFile::Release(const Digest& address, int64_t token) {
  UOPD_TRY(db_->Run(lease_schema::kReleaseLease, address.view(), token));
  return db_->changes() == 1 ? absl::OkStatus() : LeaseLost();
}

absl::Status LeaseFile::PutMark(const Digest& address, int64_t token, int64_t now_us) {
  if (life_.mark().empty()) return absl::OkStatus();
  sqlite::Transaction transaction(*db_);
  UOPD_TRY(transaction.Begin());
  UOPD_TRY(db_->Run(lease_schema::kPutShared, address.view(), token, std::string_view(life_.mark()),
                    now_us));
  UOPD_TRY(db_->Run(lease_schema::kForgetShared, now_us - kMarksUs));
  return transaction.Commit();
}

absl::Status LeaseFile::DropMark(const Digest& address, int64_t token) {
  return db_->Run(lease_schema::kDropShared, address.view(), token);
}

absl::StatusOr<std::optional<int64_t>> LeaseFile::TokenOfDead(const Digest& address) {
  UOPD_ASSIGN(Statement * statement, db_->Prepared(lease_schema::kSelectShared));
  Query query(*statement);
  UOPD_ASSIGN(const bool found, query.Bind(address.view()).Step());
  if (!found || !life_.IsDead(query.Blob(1))) return std::nullopt;
  return query.Int(0);
}

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
