// SPDX-License-Identifier: MIT
#include "cache/store.h"

#include <algorithm>
#include <atomic>
#include <iterator>
#include <map>
#include <utility>

#include "cache/cluster/cluster_leases.h"
#include "cache/file/file_leases.h"
#include "cache/memory/memory_leases.h"
#include "cache/memory/memory_tier.h"
#include "core/base/status.h"
#include "core/base/telemetry/metrics.h"

namespace uopd::cache {
namespace {

// Counts the time that a hit saved: the time that it took to compute the value, here or elsewhere.
void CountSaved(Source source, int64_t cost_us) {
  if (cost_us > 0) metrics::SavedTime({Name(source)}).AddNs(static_cast<uint64_t>(cost_us) * 1000);
}

}  // namespace

std::unique_ptr<Store> Store::Open(StoreOptions options, std::unique_ptr<Cluster> maybe_cluster) {
  auto stats = std::make_unique<StatsTable>();
  FileTierOptions file{.folder = options.folder,
                       .max_bytes = options.max_bytes,
                       .file = options.file,
                       .queue = options.queue,
                       .retry_us = options.retry_us,
                       .now = options.now};
  file.on_change = [table = stats.get(), on_change = options.on_change](const Health& health) {
    table->set_degraded(health.state == State::kReadOnly || health.state == State::kMemory);
    if (on_change) on_change(health);
  };
  std::vector<std::unique_ptr<Tier>> tiers;
  tiers.push_back(std::make_unique<FileTier>(std::move(file), *stats));
  tiers.push_back(std::make_unique<MemoryTier>(options.memory_bytes, options.now, *stats));
  std::unique_ptr<Leases> leases;
  LeaseMarks* maybe_marks = nullptr;
  if (options.file.read_only) {  // nothing is written into the folder
    leases = std::make_unique<MemoryLeases>(options.now);
  } else {
    auto shared =
        std::make_unique<FileLeases>(FileLeasesOptions{.folder = options.folder,
                                                       .retry_us = options.retry_us,
                                                       .now = options.now,
                                                       .on_failure = options.on_lease_failure});
    maybe_marks = shared.get();
    leases = std::move(shared);
  }
  if (maybe_cluster != nullptr && maybe_cluster->coordinates()) {
    leases = std::make_unique<ClusterLeases>(maybe_cluster->server(), std::move(leases),
                                             maybe_cluster->budget(), maybe_marks);
  }
  return std::make_unique<Store>(std::move(stats), std::move(tiers), std::move(leases), options.now,
                                 std::move(maybe_cluster));
}

Store::Store(int64_t max_bytes, NowFn now)
    : Store(std::make_unique<StatsTable>(), max_bytes, now) {}

Store::Store(std::unique_ptr<StatsTable> stats, int64_t max_bytes, const NowFn& now)
    : now_(now),
      stats_(std::move(stats)),
      leases_(std::make_unique<MemoryLeases>(now)),
      keeper_(*leases_) {
  tiers_.push_back(std::make_unique<MemoryTier>(max_bytes, now, *stats_));
}

Store::Store(std::unique_ptr<StatsTable> stats, std::vector<std::unique_ptr<Tier>> tiers,
             std::unique_ptr<Leases> leases, NowFn now, std::unique_ptr<Cluster> maybe_cluster,
             const RefillOptions& refill)
    : now_(std::move(now)),
      stats_(std::move(stats)),
      leases_(std::move(leases)),
      keeper_(*leases_),
      tiers_(std::move(tiers)),
      cluster_(std::move(maybe_cluster)) {
  if (cluster_ == nullptr) return;
  if (cluster_->can_sign()) {
    refill_ = std::make_unique<Refill>(
        *cluster_, refill, [this](const EntryQuery& query) { return Select(query); },
        [this](const Digest& address) { return ReadRow(address); });
  }
  if (!cluster_->coordinates()) return;
  // The listener is the first to notice that a server went away, and perhaps came back without its
  // keys.
  cluster_->Listen([this](const std::shared_ptr<const Row>& row) { Keep(cache::KeyOf(*row), row); },
                   [this] {
                     if (refill_ != nullptr) refill_->LookSoon();
                   });
}

Store::~Store() {
  if (cluster_ != nullptr) cluster_->StopListening();
  refill_.reset();
  for (auto& tier : tiers_) tier.reset();  // in order: later tiers get the rows that one gives up
}

GetResult Store::Get(const Key& key, bool patient) {
  GetResult result = Lookup(key, patient);
  StoreStats& stats = stats_->For(key.store());
  switch (result.outcome) {
    case GetOutcome::kHit:
      ++stats.hits;
      uses_.Add(key.address(), result.entry.cost_us);
      CountSaved(result.source, result.entry.cost_us);
      metrics::CacheHits({key.store(), Name(result.source)}).Increment();
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

void Store::Follow(const std::string& environment) {
  if (cluster_ != nullptr) cluster_->Follow(environment);
}

GetResult Store::Lookup(const Key& key, bool patient) {
  GetOutcome failure = GetOutcome::kMiss;  // the first outcome that is more than a miss
  for (auto& tier : tiers_) {
    GetResult result = tier->Get(key);
    if (result.hit()) return result;
    if (failure == GetOutcome::kMiss) failure = result.outcome;
  }
  if (cluster_ == nullptr) return {.outcome = failure};
  const Cluster::Found found = cluster_->Get(key, patient);
  if (found.outcome != GetOutcome::kHit) return {.outcome = failure};  // the cluster counts its own
  Keep(key, found.row);
  return Hit(*found.row, Source::kCluster);
}

void Store::Keep(const Key& key, const std::shared_ptr<const Row>& row) {
  if (!PutRow(0, key.address(), row, nullptr).ok()) return;
  bell_.Ring();
  arrivals_.Announce(*row);
}

absl::Status Store::PutAndShare(const Key& key, const std::shared_ptr<const Row>& row,
                                Settled settled) {
  if (cluster_ == nullptr) return PutRow(0, key.address(), row, settled);
  // The first failure is that of this daemon's own tiers: the cluster is a second copy.
  struct Both {
    std::atomic<int> left{2};
    absl::Status own;
    Settled settled;
    void Done() {
      if (--left == 0 && settled) settled(own);
    }
  };
  auto both = std::make_shared<Both>();
  both->settled = std::move(settled);
  absl::Status status = PutRow(0, key.address(), row, [both](const absl::Status& written) {
    both->own = written;
    both->Done();
  });
  // A row that no tier takes here is still worth sending. The caller reports it, so nobody settles.
  if (!status.ok()) both->settled = nullptr;
  cluster_->Put(row, [both](const absl::Status&) { both->Done(); });
  return status;
}

absl::Status Store::PutRow(size_t first, const Digest& address,
                           const std::shared_ptr<const Row>& row, const Settled& settled) {
  absl::Status status = absl::UnavailableError("No tier of the cache takes the entry");
  for (size_t i = first; i < tiers_.size() && absl::IsUnavailable(status); ++i) {
    auto kept = [this, i, address, row, settled](const absl::Status& written) {
      if (written.ok()) {
        for (size_t later = i + 1; later < tiers_.size(); ++later) tiers_[later]->Erase(address);
      } else if (PutRow(i + 1, address, row, settled).ok()) {
        return;  // a later tier will settle the row
      }
      if (settled) settled(written);
    };
    status = tiers_[i]->Put(address, row, kept);
  }
  return status;
}

absl::Status Store::CountPut(const std::string& store, absl::Status status) {
  StoreStats& stats = stats_->For(store);
  ++(status.ok() ? stats.puts : stats.put_errors);
  metrics::CachePuts({store, status.ok() ? "ok" : "error"}).Increment();
  metrics::CacheEvictions(
      {store});  // a series from the first put, so that the first eviction is a rise
  if (status.ok()) bell_.Ring();
  return status;
}

absl::Status Store::Put(const Key& key, std::string bytes, int64_t cost_us) {
  auto row = std::make_shared<const Row>(MakeRow(key, std::move(bytes), cost_us, now_(), 0));
  return CountPut(key.store(), PutAndShare(key, row, nullptr));
}

absl::Status Store::PutFenced(const Key& key, std::string bytes, int64_t cost_us, int64_t token) {
  if (absl::Status newest = leases_->CheckNewest(key.address(), token); absl::IsAborted(newest)) {
    ++stats_->For(key.store()).stale_puts;
    metrics::CachePuts({key.store(), "stale"}).Increment();
    return newest;
  }
  auto row = std::make_shared<const Row>(MakeRow(key, std::move(bytes), cost_us, now_(), token));
  // The lease is released only when other processes can read the row. A lease that cannot be
  // released ends by itself.
  auto release = [this, address = key.address(), token](const absl::Status&) {
    leases_->Release(address, token).IgnoreError();
    bell_.Ring();
  };
  absl::Status status = PutAndShare(key, row, release);
  if (!status.ok()) release(status);
  return CountPut(key.store(), std::move(status));
}

absl::Status Store::Replace(const Key& key, std::string bytes, int64_t cost_us, int64_t fence) {
  auto row = std::make_shared<const Row>(MakeRow(key, std::move(bytes), cost_us, now_(), fence));
  UOPD_TRY(CountPut(key.store(), PutAndShare(key, row, nullptr)));
  // A tier says OK to a row that a newer one keeps out: what counts is what is there afterwards.
  UOPD_TRY(FlushTiers());
  UOPD_ASSIGN(const std::optional<Row> kept, ReadRow(key.address()));
  if (kept && kept->checksum == row->checksum) return absl::OkStatus();
  return absl::AbortedError("a newer value is there");
}

absl::Status Store::FlushTiers() {
  absl::Status first;
  for (auto& tier : tiers_) first.Update(tier->Flush());
  return first;
}

absl::Status Store::Flush() {
  absl::Status first = FlushTiers();
  if (cluster_ != nullptr) cluster_->Flush();
  return first;
}

const StatsTable& Store::stats() {
  const absl::StatusOr<std::vector<Usage>> all = ReadUsage();
  if (!all.ok()) return *stats_;
  stats_->ClearGauges();
  for (const Usage& usage : *all) {
    StoreStats& stats = stats_->For(usage.store);
    stats.rows = usage.rows;
    stats.bytes = usage.bytes;
  }
  return *stats_;
}

LeaseResult Store::TryLease(const Key& key, std::string_view owner, int64_t ttl_us) {
  LeaseResult result = leases_->TryLease(key.address(), owner, ttl_us);
  metrics::Leases({key.store(), Name(result.outcome)}).Increment();
  return result;
}

absl::Status Store::ReleaseLease(const Key& key, int64_t token) {
  absl::Status status = leases_->Release(key.address(), token);
  bell_.Ring();
  return status;
}

std::optional<WatchOutcome> Store::LookReady(const Key& key) {
  for (auto& tier : tiers_) {
    if (tier->Contains(key.address())) return WatchOutcome::kReady;
  }
  if (leases_->IsHeld(key.address())) return std::nullopt;
  return WatchOutcome::kLeaseFree;
}

WatchOutcome Store::WatchReady(const Key& key, const WorkLimits& limits) {
  return bell_.WaitFor(limits, [&](WatchOutcome* outcome) {
    const std::optional<WatchOutcome> seen = LookReady(key);
    if (seen) *outcome = *seen;
    return seen.has_value();
  });
}

absl::StatusOr<std::vector<Usage>> Store::ReadUsage() {
  std::map<std::string, Usage> sum;
  for (auto& tier : tiers_) {
    UOPD_ASSIGN(const std::vector<Usage> here, tier->ReadUsage());
    for (const Usage& usage : here) {
      if (usage.rows == 0) continue;
      Usage& total = sum[usage.store];
      total.rows += usage.rows;
      total.bytes += usage.bytes;
    }
  }
  std::vector<Usage> out;
  for (const auto& [store, usage] : sum) out.push_back({store, usage.rows, usage.bytes});
  return out;
}

std::vector<EntryInfo> Store::List(const std::string& store, int64_t limit) {
  std::vector<EntryInfo> out;
  for (auto& tier : tiers_) {
    const std::vector<EntryInfo> listed = tier->List(store, limit);
    out.insert(out.end(), listed.begin(), listed.end());
  }
  SortAndTrim(out, limit);
  return out;
}

std::optional<Key> Store::KeyOf(const Digest& address) {
  for (auto& tier : tiers_) {
    if (auto key = tier->KeyOf(address)) return key;
  }
  return std::nullopt;
}

absl::StatusOr<std::vector<EntryInfo>> Store::Select(const EntryQuery& query) {
  FlushTiers().IgnoreError();  // what cannot be written is found in memory
  std::vector<EntryInfo> out;
  if (query.limit <= 0) return out;
  const auto limit = static_cast<size_t>(query.limit);
  for (auto tier = tiers_.begin(); tier != tiers_.end(); ++tier) {
    // Entries of an earlier tier hide those of the same address, wherever they stand in the order.
    // So pages are read until enough entries are left: a page that is not full would mean the end.
    const auto hidden = [&](const EntryInfo& entry) {
      return std::any_of(tiers_.begin(), tier,
                         [&](const auto& earlier) { return earlier->Contains(entry.address); });
    };
    EntryQuery rest = query;
    std::vector<EntryInfo> own;
    for (bool more = true; more && own.size() < limit;) {
      UOPD_ASSIGN(std::vector<EntryInfo> page, (*tier)->Select(rest));
      more = page.size() == limit;
      if (more) rest.after = {OrderValue(page.back(), query.order), page.back().address};
      std::erase_if(page, hidden);
      std::ranges::move(page, std::back_inserter(own));
    }
    std::ranges::move(own, std::back_inserter(out));
  }
  MakePage(query, out);
  return out;
}

absl::StatusOr<std::optional<Row>> Store::ReadRow(const Digest& address) {
  for (auto& tier : tiers_) {
    UOPD_ASSIGN(std::optional<Row> row, tier->ReadRow(address));
    if (row) return row;
  }
  return std::nullopt;
}

absl::StatusOr<int64_t> Store::Remove(std::span<const Digest> addresses) {
  int64_t removed = 0;
  for (auto& tier : tiers_) {
    UOPD_ASSIGN(const int64_t here, tier->Remove(addresses));
    removed += here;
  }
  return removed;
}

absl::Status Store::SetPinned(const Digest& address, bool pinned, int64_t max_pinned_bytes) {
  FlushTiers().IgnoreError();
  absl::Status status = absl::NotFoundError("The cache has no such entry");
  for (auto& tier : tiers_) {
    status = tier->SetPinned(address, pinned, max_pinned_bytes);
    if (!absl::IsNotFound(status)) return status;
  }
  return status;
}

absl::Status Store::Import(Row row) {
  const Digest address = cache::KeyOf(row).address();
  row.last_used_us = now_();
  absl::Status status = PutRow(0, address, std::make_shared<const Row>(std::move(row)), nullptr);
  if (status.ok()) bell_.Ring();
  return status;
}

absl::Status Store::Clear(const std::string& store) {
  absl::Status first;
  for (auto& tier : tiers_) first.Update(tier->Clear(store));
  return first;
}

}  // namespace uopd::cache
