// SPDX-License-Identifier: MIT
#include "cache/file/file_tier.h"

#include <algorithm>

#include "cache/base/row/eviction.h"
#include "core/base/status.h"
#include "core/base/telemetry/metrics.h"

namespace uopd::cache {
namespace {

constexpr int64_t kMaxRowBytes = int64_t{512} << 20;  // SQLite's own limit is 1,000,000,000

}  // namespace

FileTier::FileTier(FileTierOptions options, StatsTable& stats)
    : options_(std::move(options)),
      stats_(stats),
      max_bytes_(options_.max_bytes),
      keeper_({.folder = options_.folder,
               .file = options_.file,
               .retry_us = options_.retry_us,
               .now = options_.now,
               .on_change = options_.on_change}),
      recent_(options_.file.read_only ? "" : options_.folder),
      queue_(
          options_.queue, [this](const std::vector<WriteOp>& ops) { return WriteBatch(ops); },
          [this] { keeper_.Tick(); }, [this] { recent_.Clear(); }) {
  // What a daemon of the newer version has left is for the next of its kind.
  if (!options_.file.read_only && keeper_.health().fault != Fault::kNewer) TakeOverRecent();
}

FileTier::~FileTier() = default;

void FileTier::TakeOverRecent() {
  recent_.TakeOver([this](Row row) {
    const auto shared = std::make_shared<const Row>(std::move(row));
    const Digest address = cache::KeyOf(*shared).address();
    absl::Status put = Put(address, shared, {});
    if (absl::IsResourceExhausted(put)) {  // the queue is full, or the row too large for this cache
      queue_.Flush().IgnoreError();
      put = Put(address, shared, {});
    }
    return absl::IsUnavailable(put) ? put : absl::OkStatus();
  });
}

GetResult FileTier::Get(const Key& key) {
  if (auto row = queue_.Find(key.address()); row != nullptr && KeyMatches(*row, key)) {
    return Hit(*row, Source::kMemory);
  }
  auto file = keeper_.Current();
  if (file == nullptr) return {};
  auto row = file->Read(key.address());
  if (!row.ok()) {
    keeper_.Report(file, row.status());
    return {.outcome = GetOutcome::kUnavailable};
  }
  return row->has_value() ? Judge(key, **std::move(row)) : GetResult{};
}

GetResult FileTier::Judge(const Key& key, Row row) {
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
    row.value = result.entry.bytes;  // the size of the value is part of the score
    WriteOp op{.kind = WriteOp::kTouch, .address = key.address(), .now_us = now_us};
    op.row = std::make_shared<const Row>(std::move(row));
    queue_.Push(std::move(op));
  }
  return result;
}

bool FileTier::Contains(const Digest& address) {
  if (queue_.Find(address) != nullptr) return true;
  auto file = keeper_.Current();
  if (file == nullptr) return false;
  auto found = file->Contains(address);
  return found.ok() && *found;
}

absl::Status FileTier::Put(const Digest& address, std::shared_ptr<const Row> row, Settled settled) {
  if (SizeOf(*row) > std::min(max_bytes_.load() / 2, kMaxRowBytes)) {
    return absl::ResourceExhaustedError("The entry is larger than half of the cache");
  }
  if (keeper_.Writable() == nullptr) {
    return absl::UnavailableError("The cache file cannot be written now");
  }
  StoreStats& stats = stats_.For(row->store);
  WriteOp op{.kind = WriteOp::kPut, .address = address};
  op.row = row;
  op.settled = settled;
  switch (queue_.Push(std::move(op))) {
    case PushOutcome::kQueued:
      recent_.Keep(*row);
      break;
    case PushOutcome::kNoRoom:
      return absl::ResourceExhaustedError("Too many entries wait to be written to the cache");
    case PushOutcome::kStale:
      ++stats.stale_puts;
      if (settled) settled(absl::OkStatus());
      break;
  }
  return absl::OkStatus();
}

absl::Status FileTier::Flush() {
  keeper_.Tick();
  return queue_.Flush();
}

absl::Status FileTier::WriteBatch(const std::vector<WriteOp>& ops) {
  keeper_.Tick();
  absl::Status status = absl::ResourceExhaustedError("The cache file cannot be written now");
  // Report replaces a damaged file, so the second attempt writes to the new file.
  for (int attempt = 0; attempt < 2; ++attempt) {
    auto file = keeper_.Writable();
    if (file == nullptr) break;
    auto result = WriteMakingRoom(*file, ops);
    if (result.ok()) {
      Count(*result);
      return absl::OkStatus();
    }
    status = result.status();
    if (absl::IsUnavailable(status)) return status;
    keeper_.Report(file, status);
  }
  for (const WriteOp& op : ops) {
    if (op.kind == WriteOp::kPut) ++stats_.For(op.row->store).put_errors;
  }
  return status;
}

absl::StatusOr<WriteResult> FileTier::WriteMakingRoom(CacheFile& file,
                                                      const std::vector<WriteOp>& ops) {
  auto result = file.Write(ops, max_bytes_.load());
  if (!absl::IsResourceExhausted(result.status())) return result;
  if (ops.size() > 1) {  // a transaction with fewer changes may fit
    const auto middle = ops.begin() + static_cast<std::ptrdiff_t>(ops.size() / 2);
    UOPD_ASSIGN(WriteResult first, WriteMakingRoom(file, {ops.begin(), middle}));
    UOPD_ASSIGN(const WriteResult second, WriteMakingRoom(file, {middle, ops.end()}));
    for (const auto& [store, rows] : second.evicted) first.evicted[store] += rows;
    for (const auto& [store, rows] : second.stale) first.stale[store] += rows;
    return first;
  }
  // The disk has less room than max_bytes. Evict a quarter of the present bytes to make room.
  UOPD_ASSIGN(const auto usage, file.ReadUsage());
  int64_t total = 0;
  for (const Usage& of : usage) total += of.bytes;
  UOPD_ASSIGN(WriteResult evicted, file.Evict(total - total / 4));
  UOPD_ASSIGN(WriteResult written, file.Write(ops, max_bytes_.load()));
  for (const auto& [store, rows] : evicted.evicted) written.evicted[store] += rows;
  return written;
}

void FileTier::Count(const WriteResult& result) {
  for (const auto& [store, rows] : result.evicted) {
    stats_.For(store).evictions += rows;
    metrics::CacheEvictions({store}).Increment(static_cast<uint64_t>(rows));
  }
  for (const auto& [store, rows] : result.stale) stats_.For(store).stale_puts += rows;
}

std::vector<EntryInfo> FileTier::List(const std::string& store, int64_t limit) {
  auto file = keeper_.Current();
  if (file == nullptr) return {};
  auto listed = file->List(store, limit);
  if (listed.ok()) return *std::move(listed);
  keeper_.Report(file, listed.status());
  return {};
}

std::optional<Key> FileTier::KeyOf(const Digest& address) {
  if (auto row = queue_.Find(address)) return cache::KeyOf(*row);
  auto file = keeper_.Current();
  if (file == nullptr) return std::nullopt;
  auto row = file->Read(address);
  if (!row.ok()) {
    keeper_.Report(file, row.status());
    return std::nullopt;
  }
  if (!row->has_value() || Checksum(**row) != (*row)->checksum) return std::nullopt;
  return cache::KeyOf(**row);
}

template <class F, class T>
absl::StatusOr<T> FileTier::WithFile(F read, T none) {
  auto file = keeper_.Current();
  if (file == nullptr) return none;
  absl::StatusOr<T> result = read(*file);
  if (!absl::IsInvalidArgument(result.status())) keeper_.Report(file, result.status());
  return result;
}

absl::StatusOr<std::vector<Usage>> FileTier::ReadUsage() {
  return WithFile([](CacheFile& file) { return file.ReadUsage(); }, std::vector<Usage>());
}

absl::StatusOr<std::vector<EntryInfo>> FileTier::Select(const EntryQuery& query) {
  return WithFile([&](CacheFile& file) { return file.Select(query); }, std::vector<EntryInfo>());
}

absl::StatusOr<std::optional<Row>> FileTier::ReadRow(const Digest& address) {
  if (auto row = queue_.Find(address)) return *row;
  return WithFile([&](CacheFile& file) { return file.Read(address); }, std::optional<Row>());
}

absl::StatusOr<int64_t> FileTier::Remove(std::span<const Digest> addresses) {
  Flush().IgnoreError();  // queued rows would be written afterwards; failures were counted
  auto file = keeper_.Writable();
  if (file == nullptr) {
    if (keeper_.Current() == nullptr) return 0;
    return absl::PermissionDeniedError("The cache file cannot be written");
  }
  recent_.Clear();  // what is removed must not come back
  auto removed = file->Remove(addresses);
  keeper_.Report(file, removed.status());
  return removed;
}

absl::Status FileTier::SetPinned(const Digest& address, bool pinned, int64_t max_pinned_bytes) {
  Flush().IgnoreError();
  auto file = keeper_.Writable();
  if (file == nullptr) {
    if (keeper_.Current() == nullptr) return absl::NotFoundError("There is no cache file");
    return absl::PermissionDeniedError("The cache file cannot be written");
  }
  absl::Status status = file->SetPinned(address, pinned, max_pinned_bytes);
  // These two are answers, not failures of the file.
  if (!absl::IsNotFound(status) && !absl::IsResourceExhausted(status)) keeper_.Report(file, status);
  return status;
}

absl::Status FileTier::Clear(const std::string& store) {
  Flush().IgnoreError();  // queued rows would be written after the Clear; failures were counted
  auto file = keeper_.Writable();
  if (file == nullptr) {
    return keeper_.Current() == nullptr
               ? absl::OkStatus()
               : absl::PermissionDeniedError("The cache file cannot be written");
  }
  recent_.Clear();
  absl::Status status = file->Clear(store);
  keeper_.Report(file, status);
  return status;
}

}  // namespace uopd::cache
