// SPDX-License-Identifier: MIT
// Cluster: what a store shares with the stores of other daemons, by a server that may be slow, gone or lying.
//
//   lookups   ask the server within a budget, so that a bad server costs that time and no more
//   puts      go through a queue of bounded size; the thread that sends them is the only one to wait for the server
//   others'   puts are announced: a thread fetches the records that this daemon has a use for, which are those with an
//             environment that it asked for before
//
// Nothing is taken without a signature of a trusted key (record.h). Thread-safe.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "cache/base/blobs.h"
#include "cache/cluster/cluster_stats.h"
#include "cache/cluster/guarded_server.h"
#include "cache/cluster/record.h"
#include "core/base/mutex.h"

namespace uopd::cache {

struct ClusterOptions {
  SealKey sign;                  // can_sign(), or nothing is put
  std::vector<SealKey> trusted;  // with the key that signs, if its records shall be read
  std::chrono::microseconds budget{20'000};  // of one question
  std::chrono::microseconds send_budget{
      std::chrono::seconds(2)};  // of one put, by the thread that sends
  size_t max_record_bytes = size_t{256} << 20;
  size_t queue_bytes = size_t{64} << 20;
  BreakerOptions breaker;
  NowFn now = WallClockUs;
  SteadyFn steady = SteadyNow;  // of the deadlines
  // False: no thread is started; the owner calls SendOne and Hear.
  bool threads = true;
  std::function<void(const std::string&)> on_change;  // a sentence for the log; from any thread
};

class Cluster {
 public:
  Cluster(std::unique_ptr<SharedServer> server, ClusterOptions options);
  // Sends what is queued, as long as the server takes it.
  ~Cluster();
  Cluster(const Cluster&) = delete;
  Cluster& operator=(const Cluster&) = delete;

  struct Found {
    GetOutcome outcome = GetOutcome::kMiss;
    std::shared_ptr<const Row> row;  // set on a hit
  };
  // The row of the key. kCorrupt: a record that was not taken.
  Found Get(const Key& key) UOPD_EXCLUDES(mu_);
  // Sends the row to the others, later. `settled` is called once: when the row was sent, or when the server does not take
  // it now; then the row is sent when the server answers again. From any thread.
  void Put(std::shared_ptr<const Row> row, Settled settled) UOPD_EXCLUDES(mu_);
  // Waits until the rows that were put before are settled.
  void Flush() UOPD_EXCLUDES(mu_);
  // For how many microseconds the server has answered and has had its keys. What others found and who computes what is
  // known again when that is long enough. UNAVAILABLE: it does not answer.
  absl::StatusOr<int64_t> SettledUs();
  // Whether the server grants leases and announces what others put (SharedServer).
  bool coordinates() const { return server_->coordinates(); }
  // For a refill of the server (refill.h), which waits for the server as long as a put does.
  bool can_sign() const { return options_.sign.can_sign(); }
  Deadline SendDeadline() const { return options_.steady() + options_.send_budget; }
  absl::Status SendQuietly(const Row& row);
  void CountRefilled(int64_t rows);  // at the end of a pass
  // For how many microseconds the server has not answered; 0: it answers.
  int64_t AwayUs() const { return server_->reachable() ? 0 : server_->UnchangedUs(); }
  // Notes that this daemon has a use for records of the environment, as each lookup does.
  void Follow(const std::string& environment) UOPD_EXCLUDES(mu_);
  // Begins to fetch what others put. REQUIRES: coordinates(). `on_row` gets each row that was fetched; on the listening thread. Call once.
  void Listen(std::function<void(std::shared_ptr<const Row>)> on_row);
  // Ends the listening thread, so that `on_row` is not called any more.
  void StopListening();

  // What the threads do, one step at a time.
  enum class Sent {
    kNothing,   // nothing waits
    kSettled,   // the first row that waited left the queue
    kNotTaken,  // it stays: try again after kSendPause
  };
  static constexpr std::chrono::milliseconds kSendPause{100};
  Sent SendOne() UOPD_EXCLUDES(mu_);
  // Fetches what was announced, as far as this daemon has a use for it.
  void Hear(const std::vector<Announcement>& announced) UOPD_EXCLUDES(mu_);
  // One question of the listener lasts so long; after one that fails it waits, so that a server that is gone does not
  // cost a core.
  static constexpr std::chrono::milliseconds kListenWait{1000};
  static constexpr std::chrono::milliseconds kListenPause{100};

  const std::shared_ptr<GuardedServer>& server() const { return server_; }
  const ClusterStats& stats() const { return stats_; }
  std::chrono::microseconds budget() const { return options_.budget; }

 private:
  struct Waiting {
    std::shared_ptr<const Row> row;
    Settled settled;  // null: called already, and the row is sent again
    int tries = 0;    // that failed although the server could be reached
  };
  Found Fetch(const Digest& address, Deadline deadline);
  bool Uses(const Digest& environment) UOPD_EXCLUDES(mu_);
  absl::Status Send(const Row& row) UOPD_EXCLUDES(mu_);
  void AddQueued(int64_t bytes) UOPD_REQUIRES(mu_);
  void CountDropped(int64_t rows);
  // Tells everybody who waits that the rows are not sent now. They stay in the queue.
  void SettleAll(const absl::Status& status) UOPD_EXCLUDES(mu_);
  void SendLoop() UOPD_EXCLUDES(mu_);
  void ListenLoop() UOPD_EXCLUDES(mu_);

  const ClusterOptions options_;
  const std::shared_ptr<GuardedServer> server_;
  ClusterStats stats_;
  std::function<void(std::shared_ptr<const Row>)> on_row_;
  absl::Status
      given_up_;  // at the end: the failure after which the rest of the queue is dropped. Of the sender only

  Mutex mu_;
  std::condition_variable changed_;
  std::deque<Waiting> queue_ UOPD_GUARDED_BY(mu_);
  size_t unsettled_ UOPD_GUARDED_BY(mu_) = 0;
  bool stop_ UOPD_GUARDED_BY(mu_) = false;
  bool stop_listening_ UOPD_GUARDED_BY(mu_) = false;
  absl::flat_hash_set<Digest> environments_ UOPD_GUARDED_BY(mu_);
  absl::flat_hash_set<Digest> sent_
      UOPD_GUARDED_BY(mu_);  // not announced yet: own puts come back, too
  std::thread sender_, listener_;
};

}  // namespace uopd::cache
