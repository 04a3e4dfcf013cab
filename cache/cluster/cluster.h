// SPDX-License-Identifier: MIT
// Cluster: what a store shares with the stores of other daemons, by a server that may be slow, gone
// or lying.
//
//   lookups   ask the server within a budget, so that a bad server costs that time and no more
//   puts      go through a queue of bounded size; the thread that sends them is the only one to
//             wait for the server
//   others'   puts are announced: a thread fetches the records that this daemon has a use for,
//             which are those with an environment that it asked for before
//
// The load on the server must not grow with the square of the number of daemons, as it would if
// each daemon took at once what each other one puts. So both have a bound, which a small or quiet
// cluster does not reach: a listener that hears much gathers announcements, and of the records that
// nobody here asked for only some are fetched. While those are used up, and they are so sooner when
// the server is slow or has many daemons (pace.h), a daemon does not listen: it asks again, more
// and more rarely, for what it asked for in vain. Lookups find what is not heard of.
//
// What every daemon must know (Follow) has a stream of its own, which holds the records: it is
// always heard.
//
// Nothing is taken without a signature of a trusted key (record.h). Thread-safe.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "cache/base/blobs.h"
#include "cache/base/wait/wait.h"
#include "cache/cluster/guarded_server.h"
#include "cache/cluster/record.h"
#include "cache/cluster/token_bucket.h"
#include "core/base/digest.h"
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
  // How many spare records a daemon has when it listens again (Cluster); it differs between
  // daemons, so that not all of them do so at once. 0: drawn at random from 48 to 95.
  int spare_again = 0;
  NowFn now = WallClockUs;
  SteadyFn steady = SteadyNow;  // of the deadlines
  // False: no thread is started; the owner calls SendOne and Hear.
  bool threads = true;
  std::function<void(const std::string&)> on_change;  // a sentence for the log; from any thread
};

// What a daemon counts about the tier that it shares with others. Relaxed atomics, as in
// cache/base/stats.h.
struct ClusterStats {
  static constexpr size_t kFaults = static_cast<size_t>(RecordFault::kOtherKey) + 1;

  std::atomic<int64_t> hits{0}, misses{0}, unavailable{0};  // of lookups
  std::array<std::atomic<int64_t>, kFaults>
      refused{};  // records that were not taken, by RecordFault
  std::atomic<int64_t> puts{0}, stale_puts{0}, put_errors{0};  // records that were sent
  std::atomic<int64_t> refilled{0};                            // records that the server had lost
  std::atomic<int64_t> dropped{0};                             // rows that did not fit in the queue
  std::atomic<int64_t> announced{0};  // records, by other daemons. Of these:
  std::atomic<int64_t> fetched{0};
  std::atomic<int64_t> spared{0};        // beyond what is fetched in advance; lookups find them
  std::atomic<int64_t> queued_bytes{0};  // gauge
};

// Wanted: what a daemon asked the shared tier for in vain, and when it asks again. Not thread-safe.
//
// The pauses grow with the time that it waits: after one second, two, four ... So waiting costs few
// questions, and takes at most twice as long as it must.
class Wanted {
 public:
  static constexpr std::chrono::seconds kFirstPause{1};
  static constexpr std::chrono::minutes kFor{10};  // then it is forgotten
  // Beyond so many all are forgotten: the next lookups ask for themselves.
  static constexpr size_t kMost = 16'384;

  void Add(const Digest& address, Deadline now) {
    if (waiting_.size() >= kMost) waiting_.clear();
    waiting_[address] = {.since = now, .next = now + kFirstPause};
  }
  // It is here, or nobody needs it any more. Whether it was wanted.
  bool Remove(const Digest& address) { return waiting_.erase(address) > 0; }
  // When the first of them is due; `otherwise` if none is before.
  Deadline NextOr(Deadline otherwise) const {
    for (const auto& [address, one] : waiting_) otherwise = std::min(otherwise, one.next);
    return otherwise;
  }
  // Those that are due. They stay, and are due again later.
  std::vector<Digest> TakeDue(Deadline now) {
    absl::erase_if(waiting_, [&](const auto& one) { return now - one.second.since > kFor; });
    std::vector<Digest> due;
    for (auto& [address, one] : waiting_) {
      if (one.next > now) continue;
      due.push_back(address);
      one.next = now + std::max<Deadline::duration>(kFirstPause, now - one.since);
    }
    return due;
  }

 private:
  struct One {
    Deadline since, next;
  };
  absl::flat_hash_map<Digest, One> waiting_;
};

class Cluster {
 public:
  Cluster(std::unique_ptr<SharedServer> server, ClusterOptions options);
  // Sends what is queued, as long as the server takes it, for kLastPuts at most.
  ~Cluster();
  static constexpr std::chrono::seconds kLastPuts{10};
  Cluster(const Cluster&) = delete;
  Cluster& operator=(const Cluster&) = delete;

  struct Found {
    GetOutcome outcome = GetOutcome::kMiss;
    std::shared_ptr<const Row> row;  // set on a hit
  };
  // The row of the key. kCorrupt: a record that was not taken. `patient`: no request waits, so the
  // server is asked also while it is too slow for requests.
  Found Get(const Key& key, bool patient = false) UOPD_EXCLUDES(mu_);
  // Sends the row to the others, later. `settled` is called once: when the row was sent, or when
  // the server does not take it now; then the row is sent when the server answers again. From any
  // thread.
  void Put(std::shared_ptr<const Row> row, Settled settled) UOPD_EXCLUDES(mu_);
  // Waits until the rows that were put before are settled, for kFlush budgets of a put at most: a
  // server that takes each row at the last moment settles a full queue in hours.
  void Flush() UOPD_EXCLUDES(mu_);
  static constexpr int kFlush = 2;
  // For how many microseconds the server has answered and has had its keys. What others found and
  // who computes what is known again when that is long enough. In a large cluster the keys count
  // from when the others have sent what they have (Pace::RefillUs), so it may be negative.
  // UNAVAILABLE: it does not answer.
  absl::StatusOr<int64_t> SettledUs();
  // For how many microseconds it has answered and was found not settled enough, each time that
  // somebody asked; 0: `settled`. A server that loses its keys again and again, or says so, must
  // not keep searches away for ever.
  int64_t UnsettledUs(bool settled);
  // How much longer than usual a large cluster may take to settle.
  int64_t RefillUs() const { return server_->pace().RefillUs(); }
  // Whether the server grants leases and announces what others put (SharedServer).
  bool coordinates() const { return server_->coordinates(); }
  // For a refill of the server (refill.h), which waits for the server as long as a put does.
  bool can_sign() const { return options_.sign.can_sign(); }
  Deadline Now() const { return options_.steady(); }
  Deadline SendDeadline() const { return options_.steady() + options_.send_budget; }
  absl::Status SendQuietly(const Row& row);
  void CountRefilled(int64_t rows);  // at the end of a pass
  // Notes that an answer took since `begin`, or did not come.
  void NoteAnswer(Deadline begin) UOPD_EXCLUDES(mu_);
  // For how many microseconds the server has not answered; 0: it answers.
  int64_t AwayUs() const { return server_->reachable() ? 0 : server_->UnchangedUs(); }
  // This daemon takes each record of the environment of which it hears, and what it puts there
  // itself is a notice: small records, of which every daemon must know. (A lookup says that it may
  // have a use for those of an environment.)
  void Follow(const std::string& environment) UOPD_EXCLUDES(mu_);
  // Begins to fetch what others put. REQUIRES: coordinates(). Call once. `on_row` gets each row
  // that was fetched, on the listening thread. `on_lost` is told each time that the server does not
  // answer the listener; on the same thread.
  void Listen(
      std::function<void(std::shared_ptr<const Row>)> on_row,
      std::function<void()> on_lost = [] {});
  // Ends the listening thread, so that `on_row` is not called any more.
  void StopListening();

  // What the threads do, one step at a time.
  enum class Sent {
    kNothing,   // nothing waits
    kSettled,   // the first row that waited left the queue
    kNotTaken,  // it stays: try again after SendPause
  };
  static constexpr std::chrono::milliseconds kSendPause{
      100};  // at first; then twice as long each time, up to 16 times
  std::chrono::milliseconds SendPause() const {
    return kSendPause * (1 << std::clamp(not_taken_ - 1, 0, 4));
  }
  Sent SendOne() UOPD_EXCLUDES(mu_);
  // Fetches what was announced, as far as this daemon has a use for it. Returns when the listener
  // may ask again.
  Deadline Hear(const std::vector<Announcement>& announced) UOPD_EXCLUDES(mu_);
  // While the spare records are used up (below) the listener does not listen: it asks for what is
  // wanted as far as that is due. Returns when it must do so again; not after now: it must listen.
  // What was announced until then is not heard. The first call asks how many daemons there are.
  Deadline AskWanted() UOPD_EXCLUDES(mu_);
  // Asks for notices if that is due, and takes them. Returns when to ask again: after
  // kNoticesEvery, and later after many notices. A large cluster asks four times as rarely as for
  // other announcements. Nothing is asked before the server has told how many daemons there are.
  // Called by the listening thread.
  Deadline HearNotices() UOPD_EXCLUDES(mu_);
  // The time at which AskWanted must be called, without a question. A lookup that finds nothing may
  // make it sooner.
  Deadline AskAt() UOPD_EXCLUDES(mu_);
  // So many answers are taken as they come, while there are at least kSpareQuiet spare records
  // (below). Otherwise the listener gathers what is announced in kGather, or longer in a large
  // cluster (Pace::Gather; up to a quarter more or less, so that the listeners do not ask
  // together). A full answer says that there is more, which is not waited for.
  static constexpr int kAnswersAtOnce = 512;
  static constexpr std::chrono::seconds kGather{1};
  // Records that this daemon asked for in vain are always fetched; of the others so many, and then
  // one in kSpareEvery. When none is left, the listener does not listen for them until there are
  // ClusterOptions::spare_again. An answer that takes the whole budget of a lookup says that the
  // server has much to do; it costs kSlowCosts of them, and one that takes n budgets n times as
  // much. In a large cluster each record and each answer counts as several (Pace::Weight), and each
  // announcement that is heard and not fetched costs 1 / kHeardForOne for each of these but the
  // first.
  static constexpr int kSpareAtOnce = 512, kSpareQuiet = 128, kSlowCosts = 16, kHeardForOne = 32;
  static constexpr std::chrono::seconds kSpareEvery{10};
  static constexpr std::chrono::seconds kNoticesEvery{2};
  // In a large cluster nobody asks for notices before the server has answered for so long (a
  // quarter more or less): until then it may be overloaded.
  static constexpr std::chrono::milliseconds kNoticesCalm{80'000};
  // A larger record is announced as any other one.
  static constexpr size_t kMostNoticeBytes = 4096;
  // So many notices are taken as they come, and then one in each kNoticePause. In a large cluster
  // each counts as several (Pace::Weight).
  static constexpr int kNoticesAtOnce = 1024;
  static constexpr std::chrono::milliseconds kNoticePause{10};
  // One question of the listener lasts so long (ListenWait); after one that fails it waits, so that
  // a server that is gone does not cost a core.
  static constexpr std::chrono::milliseconds kListenWait{1000};
  static constexpr std::chrono::milliseconds kListenPause{100};
  // How long a question of the listener waits at the server; 0 in a large cluster.
  std::chrono::milliseconds ListenWait() const {
    return server_->pace().WaitsAtServer() ? kListenWait : std::chrono::milliseconds(0);
  }

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
  // The row of a record that the server gave, if it is to be trusted.
  Found Check(std::string_view record, const Digest& address);
  // What becomes of an announcement.
  enum class Use { kOwn, kUnused, kSpared, kFetch };
  Use UseOf(const Announcement& announcement) UOPD_EXCLUDES(mu_);
  absl::Status Send(const Row& row) UOPD_EXCLUDES(mu_);
  void AddQueued(int64_t bytes) UOPD_REQUIRES(mu_);
  void CountDropped(int64_t rows);
  // Tells everybody who waits that the rows are not sent now. They stay in the queue.
  void SettleAll(const absl::Status& status) UOPD_EXCLUDES(mu_);
  void SendLoop() UOPD_EXCLUDES(mu_);
  void ListenLoop() UOPD_EXCLUDES(mu_);
  Deadline WhenToAsk() UOPD_REQUIRES(mu_);
  std::chrono::milliseconds Gather() const;
  // A pause of that length, a quarter more or less, so that not all daemons ask together.
  std::chrono::milliseconds Spread(std::chrono::milliseconds pause) const;
  void UseSpare(int64_t tokens, Deadline now) UOPD_REQUIRES(mu_);
  // Gives what was found to on_row_; false: nothing was.
  bool Take(const Found& found);
  // Takes the record of an announcement if this daemon has a use for it. True: it was heard in
  // vain.
  bool HearOne(const Announcement& one) UOPD_EXCLUDES(mu_);

  const ClusterOptions options_;
  const int spare_again_;
  const Deadline begun_;
  const std::shared_ptr<GuardedServer> server_;
  ClusterStats stats_;
  std::function<void(std::shared_ptr<const Row>)> on_row_;
  std::function<void()> on_lost_;
  // Of the listener only.
  std::string notices_cursor_;
  Deadline notices_at_;
  TokenBucket notices_{kNoticesAtOnce, kNoticePause};
  std::atomic<int64_t> unsettled_since_us_{0};  // 0: settled, or nobody asked
  int not_taken_ = 0;                           // one after the other. Of the sender only
  // At the end: the failure after which the rest of the queue is dropped. Of the sender only.
  absl::Status given_up_;

  Mutex mu_;
  std::condition_variable changed_;
  TokenBucket answers_ UOPD_GUARDED_BY(mu_){kAnswersAtOnce, kGather};
  TokenBucket spare_ UOPD_GUARDED_BY(mu_){kSpareAtOnce, kSpareEvery};
  bool spare_used_up_ UOPD_GUARDED_BY(mu_) = false;
  std::deque<Waiting> queue_ UOPD_GUARDED_BY(mu_);
  uint64_t accepted_ UOPD_GUARDED_BY(mu_) = 0, settled_ UOPD_GUARDED_BY(mu_) = 0;  // rows, in order
  Deadline last_puts_ UOPD_GUARDED_BY(mu_) = Deadline::max();                      // set at the end
  bool stop_ UOPD_GUARDED_BY(mu_) = false;
  bool stop_listening_ UOPD_GUARDED_BY(mu_) = false;
  absl::flat_hash_set<Digest> environments_ UOPD_GUARDED_BY(mu_);  // of lookups
  absl::flat_hash_set<Digest> followed_ UOPD_GUARDED_BY(mu_);
  absl::flat_hash_set<Digest> sent_
      UOPD_GUARDED_BY(mu_);  // not announced yet: own puts come back, too
  Wanted wanted_ UOPD_GUARDED_BY(mu_);
  bool wants_more_ UOPD_GUARDED_BY(mu_) = false;  // than when the listener looked
  std::thread sender_, listener_;
};

}  // namespace uopd::cache
