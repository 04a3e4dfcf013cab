// SPDX-License-Identifier: MIT
// One client's lease on the daemon: its buffers, quota and recent results, and the order of its
// calls.
//
// Owned by shared_ptr. The owners are the table and every call in progress (SessionUse). A closed
// session is not found any more. Calls that still hold it end with an error. Its buffers and
// charges are freed with the last of these calls.
#pragma once
#include <atomic>
#include <chrono>
#include <cstring>
#include <memory>
#include <string>

#include "core/base/digest.h"
#include "server/engine/base/strand.h"
#include "server/engine/session/buffer_store.h"
#include "server/engine/session/cancelled_ids.h"
#include "server/engine/session/client_process.h"
#include "server/engine/session/reclaimer.h"
#include "server/engine/session/result_memory.h"
#include "server/engine/session/shared_area.h"

namespace uopd::engine {

// Who opened a session: the peer, which is an address without its port, and the tenant.
struct Opener {
  std::string peer, tenant;
};

class Session {
 public:
  using Clock = std::chrono::steady_clock;

  Session(std::string id, std::string resume_token, Opener opener, std::chrono::milliseconds ttl,
          int64_t max_bytes, size_t max_buffers, std::shared_ptr<Quota> of_peer,
          TaskPool& task_pool)
      : id_(std::move(id)),
        resume_token_(std::move(resume_token)),
        opener_(std::move(opener)),
        quota_(std::make_shared<Quota>("limits.session_bytes", max_bytes, std::move(of_peer))),
        buffers_(*quota_, max_buffers),
        strand_(std::make_shared<Strand>(task_pool)),
        ttl_(ttl) {
    quota_->set_reclaim([this] { return Reclaim(); });
  }
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  const std::string& id() const { return id_; }
  const std::string& resume_token() const { return resume_token_; }
  const std::string& peer() const { return opener_.peer; }
  // The tenant that the session belongs to. Other tenants cannot find it by its id or token.
  const std::string& tenant() const { return opener_.tenant; }
  std::chrono::milliseconds ttl() const { return ttl_; }
  BufferStore& buffers() { return buffers_; }
  const BufferStore& buffers() const { return buffers_; }
  Quota& quota() { return *quota_; }
  // For an owner of charges that may live longer than the session. Such an owner takes nothing more
  // after the session is gone.
  const std::shared_ptr<Quota>& shared_quota() const { return quota_; }
  // What later calls may use again (kept/kept_runs.h). Null: nothing yet.
  std::shared_ptr<Reclaimer> kept() const UOPD_EXCLUDES(mu_) {
    MutexLock lock(mu_);
    return kept_;
  }
  void set_kept(std::shared_ptr<Reclaimer> kept) UOPD_EXCLUDES(mu_) {
    MutexLock lock(mu_);
    kept_ = std::move(kept);
  }
  bool Reclaim() {
    const auto held = kept();
    return held != nullptr && held->Drop();
  }
  // Memory that the client shares with the daemon. NOT_FOUND (area): the session has no area of
  // this number.
  absl::StatusOr<std::shared_ptr<SharedArea>> Area(uint64_t number) const UOPD_EXCLUDES(mu_);
  // Makes an area in place of the one before. Calls in progress still have that one. Errors are
  // those of SharedArea::Create; then the session has no area.
  absl::StatusOr<std::shared_ptr<SharedArea>> NewArea() UOPD_EXCLUDES(mu_);
  Strand& strand() { return *strand_; }
  ResultMemory& results() { return results_; }  // used on the strand only
  CancelledIds& cancelled() { return cancelled_; }

  // The time when a call last began or ended.
  Clock::time_point last_use() const {
    return Clock::time_point(Clock::duration(last_use_.load(std::memory_order_relaxed)));
  }
  // The program that runs, for operators: calls of a session run one at a time.
  void NoteRun(const Digest& graph) {
    uint64_t first = 0;
    std::memcpy(&first, graph.bytes.data(), sizeof first);
    run_since_.store(Clock::now().time_since_epoch().count(), std::memory_order_relaxed);
    run_.store(first, std::memory_order_relaxed);
  }
  void NoteRunEnd() { run_.store(0, std::memory_order_relaxed); }
  // The largest number of a call of a pipeline that was served with success. 0: none.
  uint64_t last_sequence() const { return last_sequence_.load(std::memory_order_relaxed); }
  void NoteServed(uint64_t sequence) {
    uint64_t last = last_sequence();
    while (last < sequence && !last_sequence_.compare_exchange_weak(last, sequence)) {
    }
  }
  // True if another call waits behind the one that runs.
  bool waited_for() const { return users_.load(std::memory_order_relaxed) > 1; }
  bool closed() const { return closed_.load(std::memory_order_acquire); }

 private:
  friend class SessionTable;
  friend class SessionUse;

  const std::string id_, resume_token_;
  const Opener opener_;
  const std::shared_ptr<Quota> quota_;  // within the quota of all sessions of the peer
  BufferStore buffers_;
  mutable Mutex mu_;
  std::shared_ptr<Reclaimer> kept_ UOPD_GUARDED_BY(mu_);
  std::shared_ptr<SharedArea> area_ UOPD_GUARDED_BY(mu_);  // null: none
  uint64_t areas_ UOPD_GUARDED_BY(mu_) = 0;                // made so far
  std::string side_token_;  // empty: none; guarded by the table's lock
  // Null: none is known; guarded by the table's lock.
  std::shared_ptr<const ClientProcess> process_;
  const std::shared_ptr<Strand> strand_;
  ResultMemory results_{*quota_};
  CancelledIds cancelled_;
  const std::chrono::milliseconds ttl_;
  Clock::time_point opened_;  // by the clock of the table
  std::atomic<bool> closed_{false};
  std::atomic<int> users_{0};
  std::atomic<uint64_t> last_sequence_{0};
  std::atomic<Clock::rep> last_use_{0};
  std::atomic<uint64_t> run_{0};  // the first bytes of the digest of the program that runs; 0: none
  std::atomic<Clock::rep> run_since_{0};
};

}  // namespace uopd::engine
