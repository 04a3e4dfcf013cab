// SPDX-License-Identifier: MIT
// The cache as the daemon uses it: bytes by key in tiers, leases over the keys, and administration.
//
// A row goes to the first tier that accepts it. The first tier is the file that the daemons of a
// folder share, the second is memory. With a cluster, the row also goes to a server that daemons of
// other machines share, and rows from there are put into the first tier. One authority hands out
// the leases and their tokens: that server if it can, otherwise the folder.
// Thread-safe. Nothing here makes a request fail. A cache that cannot answer returns kMiss or
// kUnavailable, and the caller computes the value. A cache that cannot keep a value says so in the
// status of Put, which callers may ignore. Times are microseconds since the epoch.
#pragma once
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "cache/base/lease/lease_keeper.h"
#include "cache/base/lease/leases.h"
#include "cache/base/stats.h"
#include "cache/base/tier.h"
#include "cache/base/wait/arrivals.h"
#include "cache/base/wait/bell.h"
#include "cache/base/wait/wait.h"
#include "cache/cluster/cluster.h"
#include "cache/cluster/refill.h"
#include "cache/file/file_tier.h"
#include "core/base/work_limits.h"

namespace uopd::cache {

struct StoreOptions {
  std::string folder;
  int64_t max_bytes = int64_t{4} << 30;      // of rows; the file is a little larger
  int64_t memory_bytes = int64_t{64} << 20;  // of rows that the file did not accept
  FileOptions file;                          // its path is set from the folder
  QueueOptions queue;
  int64_t retry_us = 30 * int64_t{1000000};  // after a failure of the disk
  NowFn now = WallClockUs;
  // Each call is one line for the log. Called from any thread; may call health().
  std::function<void(const Health&)> on_change;
  std::function<void(const std::string&)> on_lease_failure;
};

class Store final : public Admin {
 public:
  // A store in the folder of `options`. Never fails; health() says whether the file can be used.
  // `maybe_cluster`: what other machines share with this one.
  static std::unique_ptr<Store> Open(StoreOptions options,
                                     std::unique_ptr<Cluster> maybe_cluster = nullptr);
  // A store in memory only.
  explicit Store(int64_t max_bytes, NowFn now = WallClockUs);
  // `refill`: how the server of the cluster gets back what it lost.
  // A store of the given tiers, at least one. The tiers count in `stats`.
  Store(std::unique_ptr<StatsTable> stats, std::vector<std::unique_ptr<Tier>> tiers,
        std::unique_ptr<Leases> leases, NowFn now = WallClockUs,
        std::unique_ptr<Cluster> maybe_cluster = nullptr, const RefillOptions& refill = {});
  ~Store() override;  // flushes
  Store(const Store&) = delete;
  Store& operator=(const Store&) = delete;

  // `patient`: no request waits for the answer, so a shared server that is too slow for requests is
  // asked, too.
  GetResult Get(const Key& key, bool patient = false);
  // `cost_us` is the time that it took to compute the bytes. They can be read at once and are
  // durable after Flush. RESOURCE_EXHAUSTED: the value is too large, or too many bytes wait to be
  // written. A value that was put under a lease is not replaced.
  absl::Status Put(const Key& key, std::string bytes, int64_t cost_us);
  // As Put, but under the lease of `token`. Releases the lease when the bytes are durable. ABORTED:
  // a newer token was granted or the lease is unknown, so another owner decides the value.
  absl::Status PutFenced(const Key& key, std::string bytes, int64_t cost_us, int64_t token);
  // As Put, but also in the place of a value whose fence is at most `fence`. OK: the value is
  // durable, and the one that Get finds. ABORTED: a value with a newer fence is there. Otherwise an
  // error of Put or Flush: which value will stay is not known.
  absl::Status Replace(const Key& key, std::string bytes, int64_t cost_us, int64_t fence);
  // Waits until all earlier values are durable here, and the cluster has them or does not take them
  // now. UNAVAILABLE or RESOURCE_EXHAUSTED: some of them are not.
  absl::Status Flush();

  // Leases: one owner at a time may compute `key`. A lease that is not renewed ends by itself.
  LeaseResult TryLease(const Key& key, std::string_view owner, int64_t ttl_us);
  absl::Status ReleaseLease(const Key& key, int64_t token);
  // Renews leases while somebody computes under them.
  LeaseKeeper& keeper() { return keeper_; }
  Leases& leases() { return *leases_; }
  // Waits until the key has a value or nobody holds its lease.
  WatchOutcome WatchReady(const Key& key, const WorkLimits& limits);
  // One look of it: kReady or kLeaseFree; nullopt: somebody holds the lease.
  std::optional<WatchOutcome> LookReady(const Key& key);
  // How long those wait who watch for values of others.
  Patience& patience() { return patience_; }

  // From now on rows of the environment that other daemons put are fetched, as if this daemon had
  // asked for one.
  void Follow(const std::string& environment);
  // Rows of other daemons that were put into this daemon's own tiers.
  Arrivals& arrivals() { return arrivals_; }

  absl::StatusOr<std::vector<Usage>> ReadUsage() override;
  std::vector<EntryInfo> List(const std::string& store, int64_t limit) override;
  std::optional<Key> KeyOf(const Digest& address) override;
  absl::Status Clear(const std::string& store) override;
  // Select and SetPinned flush this daemon's own tiers first. What the cluster has is not touched.
  // An entry that several tiers have is listed once, as the first of them has it, which is also the
  // one that Get finds.
  absl::StatusOr<std::vector<EntryInfo>> Select(const EntryQuery& query) override;
  absl::StatusOr<std::optional<Row>> ReadRow(const Digest& address) override;
  absl::StatusOr<int64_t> Remove(std::span<const Digest> addresses) override;
  absl::Status SetPinned(const Digest& address, bool pinned, int64_t max_pinned_bytes) override;
  // Keeps a row that came from elsewhere: it has its own times and fence. It is not sent to the
  // cluster, but is an entry like others from then on: a refill (refill.h) sends it, under this
  // daemon's signature. Rows of the store "unproven" never leave.
  absl::Status Import(Row row);
  // How often entries were found since this process began.
  const UseCounts& uses() const { return uses_; }
  void SetMaxBytes(int64_t max_bytes) override { tiers_.front()->SetMaxBytes(max_bytes); }
  int64_t max_bytes() const override { return tiers_.front()->max_bytes(); }
  Health health() const override { return tiers_.front()->health(); }
  Cluster* maybe_cluster() const { return cluster_.get(); }
  Refill* maybe_refill() const { return refill_.get(); }
  // Reads the number of rows and their bytes again; if that fails, those that were read last stay.
  const StatsTable& stats();

 private:
  GetResult Lookup(const Key& key, bool patient);
  // Flush, without the cluster.
  absl::Status FlushTiers();
  // Puts the row into the first tier, from number `first` on, that accepts it.
  absl::Status PutRow(size_t first, const Digest& address, const std::shared_ptr<const Row>& row,
                      const Settled& settled);
  // The same, and sends the row to the cluster. `settled` is called when both are done.
  absl::Status PutAndShare(const Key& key, const std::shared_ptr<const Row>& row, Settled settled);
  // Keeps a row of another daemon.
  void Keep(const Key& key, const std::shared_ptr<const Row>& row);
  Store(std::unique_ptr<StatsTable> stats, int64_t max_bytes, const NowFn& now);
  absl::Status CountPut(const std::string& store, absl::Status status);

  const NowFn now_;
  const std::unique_ptr<StatsTable> stats_;
  UseCounts uses_;
  Bell bell_;
  Arrivals arrivals_;
  const std::unique_ptr<Leases> leases_;
  LeaseKeeper keeper_;
  Patience patience_;
  std::vector<std::unique_ptr<Tier>> tiers_;
  std::unique_ptr<Cluster> cluster_;  // null: none. Destroyed first: its threads use the rest
  std::unique_ptr<Refill> refill_;    // null: none
};

}  // namespace uopd::cache
