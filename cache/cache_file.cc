// SPDX-License-Identifier: MIT
#include "cache/cache_file.h"

#include "cache/eviction.h"
#include "cache/schema/v2.h"
#include "cache/sqlite/transaction.h"
#include "core/base/status.h"

namespace uopd::cache {
namespace {

using sqlite::Database;
using sqlite::Query;
using sqlite::Statement;
using sqlite::Transaction;

// Binds all arguments and steps once.
template <class... Args>
absl::Status Run(Database& db, const char* sql, const Args&... args) {
  UOPD_ASSIGN(Statement * statement, db.Prepared(sql));
  Query query(*statement);
  (query.Bind(args), ...);
  return query.Run();
}

absl::Status ReadOnly() {
  return absl::PermissionDeniedError("The cache file is open for reading only.");
}

absl::Status LeaseLost() {
  return absl::AbortedError("The lease has expired or a newer one was granted.");
}

struct StoredLease {
  std::string owner;
  int64_t token = 0, expires_us = 0;
};

absl::StatusOr<StoredLease> ReadLease(Database& db, const Digest& address) {
  UOPD_ASSIGN(Statement * statement, db.Prepared(schema::kSelectLease));
  Query query(*statement);
  query.Bind(address.view());
  UOPD_ASSIGN(const bool found, query.Step());
  if (!found) return StoredLease{};
  return StoredLease{std::string(query.Blob(0)), query.Int(1), query.Int(2)};
}

}  // namespace

// A reading connection for one scope; goes back to the pool, or is closed when it failed.
class CacheFile::Reader {
 public:
  explicit Reader(CacheFile& file) : file_(file), db_(file.TakeReader()) {}
  ~Reader() {
    if (db_.ok()) file_.GiveReader(*std::move(db_), healthy_);
  }
  Reader(const Reader&) = delete;
  Reader& operator=(const Reader&) = delete;

  // Prepares `sql` and passes the query to `read`, whose status or value it returns.
  template <class F>
  auto Do(const char* sql, F read) -> decltype(read(std::declval<Query&>())) {
    if (!db_.ok()) return db_.status();
    auto statement = (*db_)->Prepared(sql);
    if (!statement.ok()) {
      healthy_ = false;
      return statement.status();
    }
    Query query(**statement);
    auto result = read(query);
    if (!result.ok()) healthy_ = false;
    return result;
  }

 private:
  CacheFile& file_;
  absl::StatusOr<std::unique_ptr<Database>> db_;
  bool healthy_ = true;
};

absl::StatusOr<std::optional<Row>> CacheFile::Read(const Digest& address) {
  Reader reader(*this);
  return reader.Do(schema::kSelectEntry, [&](Query& q) -> absl::StatusOr<std::optional<Row>> {
    UOPD_ASSIGN(const bool found, q.Bind(address.view()).Step());
    if (!found) return std::optional<Row>();
    return std::optional<Row>(Row{.store = std::string(q.Blob(0)),
                                  .semantic = std::string(q.Blob(1)),
                                  .environment = std::string(q.Blob(2)),
                                  .value = std::string(q.Blob(3)),
                                  .checksum = std::string(q.Blob(4)),
                                  .cost_us = q.Int(5),
                                  .created_us = q.Int(6),
                                  .last_used_us = q.Int(7),
                                  .fence = q.Int(8)});
  });
}

absl::StatusOr<bool> CacheFile::Contains(const Digest& address) {
  Reader reader(*this);
  return reader.Do(schema::kHasEntry,
                   [&](Query& q) -> absl::StatusOr<bool> { return q.Bind(address.view()).Step(); });
}

absl::StatusOr<bool> CacheFile::LeaseHeld(const Digest& address, int64_t now_us) {
  Reader reader(*this);
  return reader.Do(schema::kSelectLease, [&](Query& q) -> absl::StatusOr<bool> {
    UOPD_ASSIGN(const bool found, q.Bind(address.view()).Step());
    return found && q.Int(2) > now_us;
  });
}

absl::StatusOr<std::vector<Usage>> CacheFile::ReadUsage() {
  Reader reader(*this);
  return reader.Do(schema::kUsage, [&](Query& q) -> absl::StatusOr<std::vector<Usage>> {
    std::vector<Usage> out;
    for (;;) {
      UOPD_ASSIGN(const bool more, q.Step());
      if (!more) return out;
      out.push_back({std::string(q.Blob(0)), q.Int(1), q.Int(2)});
    }
  });
}

absl::StatusOr<std::vector<EntryInfo>> CacheFile::List(const std::string& store, int64_t limit) {
  Reader reader(*this);
  return reader.Do(schema::kListEntries, [&](Query& q) -> absl::StatusOr<std::vector<EntryInfo>> {
    q.Bind(store).Bind(limit);
    std::vector<EntryInfo> out;
    for (;;) {
      UOPD_ASSIGN(const bool more, q.Step());
      if (!more) return out;
      EntryInfo info{.store = std::string(q.Blob(1)),
                     .bytes = q.Int(2),
                     .cost_us = q.Int(3),
                     .created_us = q.Int(4),
                     .last_used_us = q.Int(5)};
      if (!info.address.FromBytes(q.Blob(0))) return absl::DataLossError("An address is short.");
      out.push_back(std::move(info));
    }
  });
}

absl::Status CacheFile::PutRow(const Digest& address, const Row& row, WriteResult* result) {
  const int64_t size = SizeOf(row);
  UOPD_TRY(Run(*writer_, schema::kUpsertEntry, address.view(), row.store, size,
               KeepScore(row.last_used_us, row.cost_us, size), row.cost_us, row.created_us,
               row.last_used_us, row.fence, row.checksum, row.environment, row.semantic,
               row.value));
  if (writer_->changes() == 0) ++result->stale[row.store];
  return absl::OkStatus();
}

absl::Status CacheFile::EvictTo(int64_t max_bytes, WriteResult* result) {
  UOPD_ASSIGN(int64_t total, writer_->QueryInt(schema::kTotalBytes));
  if (total <= max_bytes) return absl::OkStatus();
  const int64_t target = LowWater(max_bytes);
  struct Victim {
    int64_t id, size;
    std::string store;
  };
  while (total > target) {
    std::vector<Victim> victims;
    {
      UOPD_ASSIGN(Statement * statement, writer_->Prepared(schema::kSelectVictims));
      Query query(*statement);
      for (;;) {
        UOPD_ASSIGN(const bool more, query.Step());
        if (!more) break;
        victims.push_back({query.Int(0), query.Int(2), std::string(query.Blob(1))});
      }
    }
    if (victims.empty()) return absl::DataLossError("The usage table counts rows that are gone.");
    for (const Victim& victim : victims) {
      if (total <= target) break;
      UOPD_TRY(Run(*writer_, schema::kDeleteById, victim.id));
      total -= victim.size;
      ++result->evicted[victim.store];
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<WriteResult> CacheFile::Write(const std::vector<WriteOp>& ops, int64_t max_bytes) {
  MutexLock lock(write_mu_);
  if (writer_ == nullptr) return ReadOnly();
  WriteResult result;
  Transaction transaction(*writer_);
  UOPD_TRY(transaction.Begin());
  for (const WriteOp& op : ops) {
    switch (op.kind) {
      case WriteOp::kPut:
        UOPD_TRY(PutRow(op.address, *op.row, &result));
        break;
      case WriteOp::kDeleteBad:
        UOPD_TRY(Run(*writer_, schema::kDeleteBadEntry, op.address.view(), op.row->checksum));
        break;
      case WriteOp::kTouch:
        UOPD_TRY(Run(*writer_, schema::kTouchEntry, op.address.view(), op.now_us,
                     KeepScore(op.now_us, op.row->cost_us, SizeOf(*op.row))));
        break;
    }
  }
  UOPD_TRY(EvictTo(max_bytes, &result));
  UOPD_TRY(transaction.Commit());
  return result;
}

absl::StatusOr<WriteResult> CacheFile::WriteFenced(const Digest& address, const Row& row,
                                                   int64_t max_bytes) {
  MutexLock lock(write_mu_);
  if (writer_ == nullptr) return ReadOnly();
  WriteResult result;
  Transaction transaction(*writer_);
  UOPD_TRY(transaction.Begin());
  UOPD_ASSIGN(const StoredLease lease, ReadLease(*writer_, address));
  if (lease.token != row.fence) return LeaseLost();
  UOPD_TRY(PutRow(address, row, &result));
  if (!result.stale.empty()) return LeaseLost();
  UOPD_TRY(EvictTo(max_bytes, &result));
  UOPD_TRY(transaction.Commit());
  return result;
}

absl::StatusOr<WriteResult> CacheFile::Evict(int64_t max_bytes) { return Write({}, max_bytes); }

absl::StatusOr<LeaseResult> CacheFile::TryLease(const Digest& address, std::string_view owner,
                                                int64_t ttl_us, int64_t now_us) {
  MutexLock lock(write_mu_);
  if (writer_ == nullptr) return ReadOnly();
  Transaction transaction(*writer_);
  UOPD_TRY(transaction.Begin());
  UOPD_ASSIGN(const StoredLease held, ReadLease(*writer_, address));
  if (held.expires_us > now_us) {
    return LeaseResult{
        .outcome = LeaseOutcome::kBusy, .expires_us = held.expires_us, .holder = held.owner};
  }
  LeaseResult result{.outcome = LeaseOutcome::kGranted,
                     .expires_us = now_us + ttl_us,
                     .holder = std::string(owner)};
  {
    UOPD_ASSIGN(Statement * statement, writer_->Prepared(schema::kNextToken));
    Query query(*statement);
    UOPD_ASSIGN(const bool row, query.Bind(now_us).Step());
    if (!row) return absl::DataLossError("The row that counts tokens is missing.");
    result.token = query.Int(0);
  }
  UOPD_TRY(
      Run(*writer_, schema::kTakeLease, address.view(), owner, result.token, result.expires_us));
  // Tokens follow the clock: those from more than a day ago belong to owners that are long gone,
  // and a missing row refuses them as well as a newer token does.
  UOPD_TRY(Run(*writer_, schema::kForgetLeases, now_us - 24 * kHourUs));
  UOPD_TRY(transaction.Commit());
  return result;
}

absl::Status CacheFile::RenewLease(const Digest& address, int64_t token, int64_t ttl_us,
                                   int64_t now_us) {
  MutexLock lock(write_mu_);
  if (writer_ == nullptr) return ReadOnly();
  UOPD_TRY(Run(*writer_, schema::kExtendLease, address.view(), token, now_us + ttl_us, now_us));
  return writer_->changes() == 1 ? absl::OkStatus() : LeaseLost();
}

absl::Status CacheFile::ReleaseLease(const Digest& address, int64_t token) {
  MutexLock lock(write_mu_);
  if (writer_ == nullptr) return ReadOnly();
  UOPD_TRY(Run(*writer_, schema::kReleaseLease, address.view(), token));
  return writer_->changes() == 1 ? absl::OkStatus() : LeaseLost();
}

absl::Status CacheFile::Clear(const std::string& store) {
  MutexLock lock(write_mu_);
  if (writer_ == nullptr) return ReadOnly();
  if (store.empty()) {
    UOPD_TRY(Run(*writer_, schema::kDeleteAll));
  } else {
    UOPD_TRY(Run(*writer_, schema::kDeleteStore, store));
  }
  return Run(*writer_, schema::kReleasePages);
}

}  // namespace uopd::cache
