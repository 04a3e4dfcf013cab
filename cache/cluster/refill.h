// SPDX-License-Identifier: MIT
// Refill: gives a shared server back what it lost.
//
// A server that was restarted, emptied or replaced has no records, but the daemons have them on
// their disks. Each daemon notices by the time at which the server got its keys, and sends what is
// missing, the entries that were used last first. A lease lets few daemons do so at a time
// (kSlots), so that most of them find that everything is there. Where the server grants no leases
// they all do so at once, and each sends what it finds missing. Nothing is announced.
#pragma once
#include <chrono>
#include <condition_variable>
#include <functional>
#include <optional>
#include <random>
#include <span>
#include <thread>
#include <vector>

#include "absl/status/statusor.h"
#include "cache/base/row/entries.h"
#include "cache/cluster/cluster.h"
#include "core/base/mutex.h"

namespace uopd::cache {

struct RefillOptions {
  std::chrono::milliseconds look{2'000};  // between two looks at the server, at first
  int64_t young_us = 600'000'000;  // a server that is younger when this daemon starts is filled too
  // Of one pass of one daemon.
  int64_t max_rows = 20'000;
  int64_t max_bytes = int64_t{1} << 30;
  int64_t lease_us = 30'000'000;
  int slot = -1;       // whose lease this daemon needs: 0 to kSlots - 1; -1: drawn at random
  uint64_t seed = 0;   // of the pauses while others fill the server; 0: drawn at random
  bool thread = true;  // false: the owner calls Look
};

class Refill {
 public:
  // A page of this daemon's entries, and a row as it is stored. Called on the thread of the refill.
  using Select = std::function<absl::StatusOr<std::vector<EntryInfo>>(const EntryQuery&)>;
  using Read = std::function<absl::StatusOr<std::optional<Row>>(const Digest&)>;

  // `cluster` outlives the refill, and can sign.
  Refill(Cluster& cluster, const RefillOptions& options, Select select, Read read);
  ~Refill();  // ends a pass that runs
  Refill(const Refill&) = delete;
  Refill& operator=(const Refill&) = delete;

  // One look at the server, and a pass if it lost its keys. Returns the pause until the next one,
  // which the thread makes: twice the one before while all is well or another daemon fills the
  // server, up to kMostPauses * look; otherwise the least. While others fill it, the pause is a
  // random one between a half and one and a half of that. All daemons saw the server come back at
  // the same moment; if their next looks came together too, all but kSlots of them would look in
  // vain.
  std::chrono::milliseconds Look() UOPD_EXCLUDES(mu_);
  static constexpr int kMostPauses = 8;
  // `look`, or longer in a large cluster (Pace::Gather): a server that comes back must not meet all
  // daemons at once.
  std::chrono::milliseconds LeastPause() const;
  // So many daemons fill the server at once. A pass asks one question after the other, for so many
  // rows each, so eight passes keep it busy for less than a half.
  static constexpr int kSlots = 8;
  static constexpr size_t kRowsAtOnce = 32;
  // The server may be another one: looks after the least pause, and then as at first. From any
  // thread.
  void LookSoon() UOPD_EXCLUDES(mu_);

 private:
  void Loop() UOPD_EXCLUDES(mu_);
  // The number of rows that were sent. An error: the pass is to be repeated.
  absl::StatusOr<int64_t> Pass() UOPD_EXCLUDES(mu_);
  // Sends those that are missing, and adds to the sums.
  absl::Status SendMissingOf(std::span<const EntryInfo> entries, int64_t& sent, int64_t& bytes)
      UOPD_EXCLUDES(mu_);
  // Whether the row was missing and could be sent.
  absl::StatusOr<bool> SendMissing(const EntryInfo& entry);
  bool stopped() UOPD_EXCLUDES(mu_);

  Cluster& cluster_;
  const RefillOptions options_;
  const Digest lease_;  // its address
  const Select select_;
  const Read read_;
  std::optional<int64_t>
      filled_;  // when the server got the keys that need no refill any more. Of Look only
  std::minstd_rand random_;  // of Look only
  Mutex mu_;
  std::condition_variable stop_changed_;
  bool stop_ UOPD_GUARDED_BY(mu_) = false;
  bool soon_ UOPD_GUARDED_BY(mu_) = false;
  std::chrono::milliseconds pause_ UOPD_GUARDED_BY(mu_);  // the last one
  std::thread thread_;
};

}  // namespace uopd::cache
