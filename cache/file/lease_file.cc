// SPDX-License-Identifier: MIT
#include "cache/file/lease_file.h"

#include <algorithm>

#include "cache/base/lease/tokens.h"
#include "cache/base/row/eviction.h"
#include "cache/file/lease_schema.h"
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

}  // namespace uopd::cache
