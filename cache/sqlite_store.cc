// SPDX-License-Identifier: MIT
#include "cache/sqlite_store.h"

#include <algorithm>

#include "cache/eviction.h"
#include "core/base/status.h"

namespace uopd::cache {
namespace {

constexpr int64_t kMaxRowBytes = int64_t{512} << 20;  // SQLite's own limit is 1,000,000,000

GetResult Hit(const Row& row, Source source) {
  return {GetOutcome::kHit, source,
          Entry{row.value, row.cost_us, row.created_us, row.last_used_us, row.fence}};
}

}  // namespace

std::unique_ptr<SqliteStore> SqliteStore::Open(SqliteStoreOptions options) {
  return std::unique_ptr<SqliteStore>(new SqliteStore(std::move(options)));
}

SqliteStore::SqliteStore(SqliteStoreOptions options)
    : options_(std::move(options)),
      memory_(options_.memory_bytes),
      keeper_({.folder = options_.folder,
               .file = options_.file,
               .retry_us = options_.retry_us,
               .now = options_.now,
               .on_change =
                   [this](const Health& health) {
                     stats_.set_degraded(health.state == State::kReadOnly ||
                                         health.state == State::kMemory);
                     if (options_.on_change) options_.on_change(health);
                   }}),
      queue_(
          options_.queue, [this](const std::vector<WriteOp>& ops) { return WriteBatch(ops); },
          [this] { keeper_.Tick(); }) {
  RefreshGauges();
}

SqliteStore::~SqliteStore() = default;

GetResult SqliteStore::Get(const Key& key) {
  GetResult result = Lookup(key);
  StoreStats& stats = stats_.For(key.store());
  switch (result.outcome) {
    case GetOutcome::kHit:
      ++stats.hits;
      break;
    case GetOutcome::kMiss:
      ++stats.misses;
      break;
    case GetOutcome::kCorrupt:
      ++stats.corrupt;
      break;
    case GetOutcome::kKeyMismatch:
      ++stats.mismatches;
      break;
    case GetOutcome::kUnavailable:
      ++stats.unavailable;
      break;
  }
  return result;
}

GetResult SqliteStore::Lookup(const Key& key) {
  if (auto row = queue_.Find(key.address()); row != nullptr && KeyMatches(*row, key)) {
    return Hit(*row, Source::kMemory);
  }
  GetOutcome failure = GetOutcome::kMiss;
  if (auto file = keeper_.Current()) {
    auto row = file->Read(key.address());
    if (!row.ok()) {
      keeper_.Report(file, row.status());
      failure = GetOutcome::kUnavailable;
    } else if (row->has_value()) {
      GetResult result = Judge(key, **std::move(row));
      if (result.hit()) return result;
      failure = result.outcome;
    }
  }
  if (auto row = memory_.Find(key.address(), options_.now());
      row != nullptr && KeyMatches(*row, key)) {
    return Hit(*row, Source::kMemory);
  }
  return {.outcome = failure};
}

GetResult SqliteStore::Judge(const Key& key, Row row) {
  const bool whole = Checksum(row) == row.checksum;
  const bool writable = keeper_.Writable() != nullptr;
  if (!whole || !KeyMatches(row, key)) {
    if (writable) {
      WriteOp op{.kind = WriteOp::kDeleteBad, .address = key.address()};
      op.row = std::make_shared<const Row>(std::move(row));
      queue_.Push(std::move(op));  // if there is no room, the next reader tries again
    }
    return {.outcome = whole ? GetOutcome::kKeyMismatch : GetOutcome::kCorrupt};
  }
  const int64_t now_us = options_.now();
  GetResult result{
      GetOutcome::kHit, Source::kDisk,
      Entry{std::move(row.value), row.cost_us, row.created_us, row.last_used_us, row.fence}};
  if (writable && now_us - row.last_used_us > kTouchIntervalUs) {
    row.value = result.entry.bytes;  // its size is part of the score
    WriteOp op{.kind = WriteOp::kTouch, .address = key.address(), .now_us = now_us};
    op.row = std::make_shared<const Row>(std::move(row));
    queue_.Push(std::move(op));
  }
  return result;
}

absl::Status SqliteStore::Put(const Key& key, std::string bytes, int64_t cost_us) {
  Row row = MakeRow(key, std::move(bytes), cost_us, options_.now(), 0);
  StoreStats& stats = stats_.For(key.store());
  if (SizeOf(row) > std::min(options_.max_bytes / 2, kMaxRowBytes)) {
    ++stats.put_errors;
    return absl::ResourceExhaustedError("The entry is larger than half of the cache.");
  }
  if (keeper_.Writable() == nullptr) {
    absl::Status status = PutInMemory(key, std::move(row));
    return absl::IsAborted(status) ? absl::OkStatus() : status;  // a leased value stays
  }
  WriteOp op{.kind = WriteOp::kPut, .address = key.address()};
  op.row = std::make_shared<const Row>(std::move(row));
  if (!queue_.Push(std::move(op))) {
    ++stats.put_errors;
    return absl::ResourceExhaustedError("Too many entries wait to be written to the cache.");
  }
  ++stats.puts;
  bell_.Ring();
  return absl::OkStatus();
}

absl::Status SqliteStore::PutInMemory(const Key& key, Row row) {
  auto evicted = memory_.Insert(key.address(), std::make_shared<const Row>(std::move(row)));
  StoreStats& stats = stats_.For(key.store());
  if (!evicted.ok()) {
    ++(absl::IsAborted(evicted.status()) ? stats.stale_puts : stats.put_errors);
    return evicted.status();
  }
  ++stats.puts;
  for (const std::string& store : *evicted) ++stats_.For(store).evictions;
  bell_.Ring();
  return absl::OkStatus();
}

absl::Status SqliteStore::PutFenced(const Key& key, std::string bytes, int64_t cost_us,
                                    int64_t token) {
  Row row = MakeRow(key, std::move(bytes), cost_us, options_.now(), token);
  StoreStats& stats = stats_.For(key.store());
  if (SizeOf(row) > std::min(options_.max_bytes / 2, kMaxRowBytes)) {
    ++stats.put_errors;
    return absl::ResourceExhaustedError("The entry is larger than half of the cache.");
  }
  auto file = keeper_.Writable();
  if (file == nullptr) {
    if (absl::Status status = memory_.CheckToken(key.address(), token); !status.ok()) {
      ++stats.stale_puts;
      return status;
    }
    return PutInMemory(key, std::move(row));
  }
  auto result = file->WriteFenced(key.address(), row, options_.max_bytes);
  if (absl::IsAborted(result.status())) {
    ++stats.stale_puts;
    return result.status();
  }
  if (!result.ok()) {
    ++stats.put_errors;
    keeper_.Report(file, result.status());
    return result.status();
  }
  queue_.Cancel(key.address());  // what was put without a lease no longer counts
  memory_.Erase(key.address());
  ++stats.puts;
  Count(*result);
  RefreshGauges();
  bell_.Ring();
  return absl::OkStatus();
}

absl::Status SqliteStore::Flush() {
  keeper_.Tick();
  return queue_.Flush();
}

absl::Status SqliteStore::WriteBatch(const std::vector<WriteOp>& ops) {
  keeper_.Tick();
  absl::Status status = absl::ResourceExhaustedError("The cache file cannot be written now.");
  // A damaged file is replaced by Report, so that the second attempt goes to its successor.
  for (int attempt = 0; attempt < 2; ++attempt) {
    auto file = keeper_.Writable();
    if (file == nullptr) break;
    auto result = WriteMakingRoom(*file, ops);
    if (result.ok()) {
      Count(*result);
      for (const WriteOp& op : ops) {
        if (op.kind == WriteOp::kPut) memory_.Erase(op.address);
      }
      RefreshGauges();
      return absl::OkStatus();
    }
    status = result.status();
    if (absl::IsUnavailable(status)) return status;
    keeper_.Report(file, status);
  }
  KeepInMemory(ops);
  return status;
}

absl::StatusOr<WriteResult> SqliteStore::WriteMakingRoom(CacheFile& file,
                                                         const std::vector<WriteOp>& ops) {
  auto result = file.Write(ops, options_.max_bytes);
  if (!absl::IsResourceExhausted(result.status())) return result;
  if (ops.size() > 1) {  // a smaller transaction may fit
    const auto middle = ops.begin() + static_cast<std::ptrdiff_t>(ops.size() / 2);
    UOPD_ASSIGN(WriteResult first, WriteMakingRoom(file, {ops.begin(), middle}));
    UOPD_ASSIGN(const WriteResult second, WriteMakingRoom(file, {middle, ops.end()}));
    for (const auto& [store, rows] : second.evicted) first.evicted[store] += rows;
    for (const auto& [store, rows] : second.stale) first.stale[store] += rows;
    return first;
  }
  // The disk has less room than the cache was promised: live with three quarters of what there is.
  UOPD_ASSIGN(const auto usage, file.ReadUsage());
  int64_t total = 0;
  for (const Usage& of : usage) total += of.bytes;
  UOPD_ASSIGN(WriteResult evicted, file.Evict(total - total / 4));
  UOPD_ASSIGN(WriteResult written, file.Write(ops, options_.max_bytes));
  for (const auto& [store, rows] : evicted.evicted) written.evicted[store] += rows;
  return written;
}

void SqliteStore::KeepInMemory(const std::vector<WriteOp>& ops) {
  for (const WriteOp& op : ops) {
    if (op.kind != WriteOp::kPut) continue;
    ++stats_.For(op.row->store).put_errors;
    auto evicted = memory_.Insert(op.address, op.row);
    if (!evicted.ok()) continue;  // too large even for memory: forgotten, as counted
    for (const std::string& store : *evicted) ++stats_.For(store).evictions;
  }
}

void SqliteStore::Count(const WriteResult& result) {
  for (const auto& [store, rows] : result.evicted) stats_.For(store).evictions += rows;
  for (const auto& [store, rows] : result.stale) stats_.For(store).stale_puts += rows;
}

void SqliteStore::RefreshGauges() {
  const std::vector<Usage> all = ReadUsage();
  stats_.ClearGauges();
  for (const Usage& usage : all) {
    StoreStats& stats = stats_.For(usage.store);
    stats.rows = usage.rows;
    stats.bytes = usage.bytes;
  }
}

LeaseResult SqliteStore::TryLease(const Key& key, std::string_view owner, int64_t ttl_us) {
  auto file = keeper_.Writable();
  if (file == nullptr) return memory_.TryLease(key.address(), owner, ttl_us, options_.now());
  auto result = file->TryLease(key.address(), owner, ttl_us, options_.now());
  if (result.ok()) return *result;
  keeper_.Report(file, result.status());
  return {};
}

absl::Status SqliteStore::RenewLease(const Key& key, int64_t token, int64_t ttl_us) {
  auto file = keeper_.Writable();
  if (file == nullptr) return memory_.RenewLease(key.address(), token, ttl_us, options_.now());
  absl::Status status = file->RenewLease(key.address(), token, ttl_us, options_.now());
  if (!absl::IsAborted(status)) keeper_.Report(file, status);
  return status;
}

absl::Status SqliteStore::ReleaseLease(const Key& key, int64_t token) {
  auto file = keeper_.Writable();
  absl::Status status = file == nullptr ? memory_.ReleaseLease(key.address(), token)
                                        : file->ReleaseLease(key.address(), token);
  if (file != nullptr && !absl::IsAborted(status)) keeper_.Report(file, status);
  bell_.Ring();
  return status;
}

WatchOutcome SqliteStore::WatchReady(const Key& key, const WaitLimits& limits) {
  return bell_.WaitFor(limits, [&](WatchOutcome* outcome) {
    *outcome = WatchOutcome::kReady;
    if (queue_.Find(key.address()) != nullptr || memory_.Contains(key.address())) return true;
    if (auto file = keeper_.Current()) {
      auto found = file->Contains(key.address());
      if (found.ok() && *found) return true;
    }
    *outcome = WatchOutcome::kLeaseFree;
    auto file = keeper_.Writable();
    if (file == nullptr) return !memory_.LeaseHeld(key.address(), options_.now());
    auto held = file->LeaseHeld(key.address(), options_.now());
    return !held.ok() || !*held;  // a waiter that cannot see the lease had better compute
  });
}

std::vector<Usage> SqliteStore::ReadUsage() {
  std::map<std::string, Usage> sum;
  auto add = [&](const std::vector<Usage>& all) {
    for (const Usage& usage : all) {
      if (usage.rows == 0) continue;
      Usage& slot = sum[usage.store];
      slot.rows += usage.rows;
      slot.bytes += usage.bytes;
    }
  };
  add(memory_.ReadUsage());
  if (auto file = keeper_.Current()) {
    auto usage = file->ReadUsage();
    if (usage.ok()) {
      add(*usage);
    } else {
      keeper_.Report(file, usage.status());
    }
  }
  std::vector<Usage> out;
  for (const auto& [store, usage] : sum) out.push_back({store, usage.rows, usage.bytes});
  return out;
}

std::vector<EntryInfo> SqliteStore::List(const std::string& store, int64_t limit) {
  std::vector<EntryInfo> out = memory_.List(store, limit);
  if (auto file = keeper_.Current()) {
    auto listed = file->List(store, limit);
    if (listed.ok()) {
      out.insert(out.end(), listed->begin(), listed->end());
    } else {
      keeper_.Report(file, listed.status());
    }
  }
  std::sort(out.begin(), out.end(), [](const EntryInfo& a, const EntryInfo& b) {
    return std::pair(-a.last_used_us, a.address) < std::pair(-b.last_used_us, b.address);
  });
  if (static_cast<int64_t>(out.size()) > limit) out.resize(static_cast<size_t>(limit));
  return out;
}

std::optional<Key> SqliteStore::KeyOf(const Digest& address) {
  if (auto row = queue_.Find(address)) return cache::KeyOf(*row);
  if (auto file = keeper_.Current()) {
    auto row = file->Read(address);
    if (!row.ok()) {
      keeper_.Report(file, row.status());
    } else if (row->has_value() && Checksum(**row) == (*row)->checksum) {
      return cache::KeyOf(**row);
    }
  }
  auto row = memory_.Find(address, options_.now());
  return row == nullptr ? std::nullopt : std::optional(cache::KeyOf(*row));
}

absl::Status SqliteStore::Clear(const std::string& store) {
  Flush().IgnoreError();  // what is queued would come back; failures were counted
  memory_.Clear(store);
  auto file = keeper_.Writable();
  if (file == nullptr) {
    return keeper_.Current() == nullptr
               ? absl::OkStatus()
               : absl::PermissionDeniedError("The cache file cannot be written.");
  }
  absl::Status status = file->Clear(store);
  keeper_.Report(file, status);
  RefreshGauges();
  return status;
}

}  // namespace uopd::cache
