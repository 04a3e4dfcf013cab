// SPDX-License-Identifier: MIT
#include "cache/file/cache_file.h"

#include <algorithm>

#include "cache/base/lease/tokens.h"
#include "cache/base/row/eviction.h"
#include "cache/file/schema.h"
#include "cache/sqlite/transaction.h"
#include "core/base/status.h"

namespace uopd::cache {
namespace {

using sqlite::Query;
using sqlite::Transaction;

absl::Status ReadOnly() {
  return absl::PermissionDeniedError("The cache file is open for reading only");
}

// The columns that all lists of entries begin with.
absl::StatusOr<EntryInfo> ReadEntry(Query& q) {
  EntryInfo out{.store = std::string(q.Blob(1)),
                .bytes = q.Int(2),
                .cost_us = q.Int(3),
                .created_us = q.Int(4),
                .last_used_us = q.Int(5)};
  if (!out.address.FromBytes(q.Blob(0))) return absl::DataLossError("An address is short");
  return out;
}

}  // namespace

// A reading connection for one scope. At its end the connection goes back to the pool; a connection
// that failed is closed.
class CacheFile::Reader {
 public:
  explicit Reader(CacheFile& file) : file_(file), db_(file.TakeReader()) {}
  ~Reader() {
    if (db_.ok()) file_.GiveReader(*std::move(db_), healthy_);
  }
  Reader(const Reader&) = delete;
  Reader& operator=(const Reader&) = delete;

  // Prepares `sql`, passes the query to `read`, and returns what `read` returns.
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
  absl::StatusOr<std::unique_ptr<sqlite::Database>> db_;
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
      UOPD_ASSIGN(EntryInfo info, ReadEntry(q));
      out.push_back(std::move(info));
    }
  });
}

absl::Status CacheFile::PutRow(const Digest& address, const Row& row, WriteResult* result) {
  const int64_t size = SizeOf(row);
  UOPD_TRY(writer_->Run(schema::kUpsertEntry, address.view(), row.store, size,
                        KeepScore(row.last_used_us, row.cost_us, size), row.cost_us, row.created_us,
                        row.last_used_us, row.fence, row.checksum, row.environment, row.semantic,
                        row.value, WallClockUs() + kFarthestTokenUs));
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
      UOPD_ASSIGN(sqlite::Statement * statement, writer_->Prepared(schema::kSelectVictims));
      Query query(*statement);
      for (;;) {
        UOPD_ASSIGN(const bool more, query.Step());
        if (!more) break;
        victims.push_back({query.Int(0), query.Int(2), std::string(query.Blob(1))});
      }
    }
    if (victims.empty()) {
      UOPD_ASSIGN(const int64_t pins, writer_->QueryInt(schema::kCountPins));
      if (pins > 0) return absl::OkStatus();  // what is left is pinned
      return absl::DataLossError("The usage table counts rows that are gone");
    }
    for (const Victim& victim : victims) {
      if (total <= target) break;
      UOPD_TRY(writer_->Run(schema::kDeleteById, victim.id));
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
        UOPD_TRY(writer_->Run(schema::kDeleteBadEntry, op.address.view(), op.row->checksum));
        break;
      case WriteOp::kTouch:
        UOPD_TRY(writer_->Run(schema::kTouchEntry, op.address.view(), op.now_us,
                              KeepScore(op.now_us, op.row->cost_us, SizeOf(*op.row))));
        break;
    }
  }
  UOPD_TRY(EvictTo(max_bytes, &result));
  UOPD_TRY(transaction.Commit());
  return result;
}

absl::StatusOr<WriteResult> CacheFile::Evict(int64_t max_bytes) { return Write({}, max_bytes); }

absl::Status CacheFile::Clear(const std::string& store) {
  MutexLock lock(write_mu_);
  if (writer_ == nullptr) return ReadOnly();
  if (store.empty()) {
    UOPD_TRY(writer_->Run(schema::kDeleteAll));
  } else {
    UOPD_TRY(writer_->Run(schema::kDeleteStore, store));
  }
  return writer_->Run(schema::kReleasePages);
}

namespace {

const char* PageStatement(EntryOrder order) {
  switch (order) {
    case EntryOrder::kLastUsed:
      return schema::kPageByLastUsed;
    case EntryOrder::kBytes:
      return schema::kPageByBytes;
    case EntryOrder::kCost:
      return schema::kPageByCost;
    case EntryOrder::kCreated:
      return schema::kPageByCreated;
    case EntryOrder::kKey:
      return schema::kPageByKey;
  }
  UOPD_CHECK(false);
}

}  // namespace

absl::StatusOr<std::vector<EntryInfo>> CacheFile::Select(const EntryQuery& query) {
  const EntryFilter& filter = query.filter;
  const auto range = RangeOf(filter.key_prefix);
  if (!range) return absl::InvalidArgumentError("The prefix of the keys is not hexadecimal");
  const EntryQuery::After after = query.after.value_or(EntryQuery::After{});
  // By key a page begins in the index where the page before ended. The statement's own condition
  // stands in an OR, by which no index can be bounded.
  const bool behind = query.after && query.order == EntryOrder::kKey;
  const Digest& first = behind ? std::max(range->first, after.address) : range->first;
  Reader reader(*this);
  return reader.Do(PageStatement(query.order),
                   [&](Query& q) -> absl::StatusOr<std::vector<EntryInfo>> {
                     q.Bind(filter.store).Bind(first.view()).Bind(range->last.view());
                     q.Bind(filter.environment).Bind(filter.unused_since_us);
                     q.Bind(int64_t{filter.pinned_only}).Bind(int64_t{query.after.has_value()});
                     q.Bind(after.value).Bind(after.address.view()).Bind(query.limit);
                     std::vector<EntryInfo> out;
                     for (;;) {
                       UOPD_ASSIGN(const bool more, q.Step());
                       if (!more) return out;
                       UOPD_ASSIGN(EntryInfo info, ReadEntry(q));
                       info.checksum = std::string(q.Blob(6));
                       info.environment = std::string(q.Blob(7));
                       info.pinned = q.Int(8) != 0;
                       out.push_back(std::move(info));
                     }
                   });
}

absl::StatusOr<int64_t> CacheFile::Remove(std::span<const Digest> addresses) {
  MutexLock lock(write_mu_);
  if (writer_ == nullptr) return ReadOnly();
  Transaction transaction(*writer_);
  UOPD_TRY(transaction.Begin());
  int64_t removed = 0;
  for (const Digest& address : addresses) {
    UOPD_TRY(writer_->Run(schema::kDeleteByAddress, address.view()));
    removed += writer_->changes();
  }
  UOPD_TRY(transaction.Commit());
  UOPD_TRY(writer_->Run(schema::kReleasePages));
  return removed;
}

absl::Status CacheFile::SetPinned(const Digest& address, bool pinned, int64_t max_pinned_bytes) {
  MutexLock lock(write_mu_);
  if (writer_ == nullptr) return ReadOnly();
  Transaction transaction(*writer_);
  UOPD_TRY(transaction.Begin());
  bool exists = false;
  {
    UOPD_ASSIGN(sqlite::Statement * statement, writer_->Prepared(schema::kHasEntry));
    Query query(*statement);
    UOPD_ASSIGN(exists, query.Bind(address.view()).Step());
  }
  if (!exists) return absl::NotFoundError("The cache has no such entry");
  UOPD_TRY(writer_->Run(pinned ? schema::kPin : schema::kUnpin, address.view()));
  if (pinned) {
    UOPD_ASSIGN(const int64_t bytes, writer_->QueryInt(schema::kPinnedBytes));
    if (bytes > max_pinned_bytes) {  // leaving this scope takes the pin back
      return absl::ResourceExhaustedError("Pinned entries would have more bytes than they may");
    }
  }
  return transaction.Commit();
}

}  // namespace uopd::cache
