// SPDX-License-Identifier: MIT
// A limit on bytes, perhaps within a larger limit, and the charges against it. Every byte that the
// daemon holds for a client is charged, by what it is held for (uopd_client_bytes).
//
// Thread-safe, lock-free. A quota outlives its charges and the quotas within it: the owner of a
// charge that may outlive the session holds the session's quota too (kept/kept_runs.h).
#pragma once
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "core/base/status.h"
#include "core/base/telemetry/metrics.h"

namespace uopd::engine {

enum class ByteClass : uint8_t {
  kBuffers,   // buffers of sessions, and memory of runs
  kMessages,  // requests that wait or are served
  kAnswers,   // answers that the client has not read yet
  kResults,   // results of requests that may be repeated
  kShared,    // memory that clients of the same machine share with the daemon
  kGraphs,    // graphs of some size that are being verified, scheduled and lowered
  kKept,      // values that runs keep for later runs; given back when memory is short
  kContents,  // constants that sessions share (content/content_memory.h)
};

class Quota {
 public:
  // `name` completes the message "... exceed <name>". Example: "limits.session_bytes".
  Quota(std::string name, int64_t limit, Quota* parent = nullptr);
  // As above, and keeps the larger quota.
  Quota(std::string name, int64_t limit, std::shared_ptr<Quota> parent);
  Quota(const Quota&) = delete;
  Quota& operator=(const Quota&) = delete;

  // RESOURCE_EXHAUSTED names the limit. Nothing is then charged to any quota.
  absl::Status Take(int64_t bytes);
  // `reclaim` is called when a charge fails that could succeed if it gave back all that it can,
  // without any lock of the quota. It gives back what can be made again, and returns true if there
  // was any; then the charge is tried once more. Set before the quota is used.
  void set_reclaim(std::function<bool()> reclaim) { reclaim_ = std::move(reclaim); }
  // Gives back what can be made again, here and in the larger quotas. True if there was any.
  bool Reclaim();
  // Charges bytes that exist already and that another limit bounds. The charge may exceed the
  // limit; then less is left for others.
  void TakeAlways(int64_t bytes);
  void Give(int64_t bytes);
  // Charge this quota alone, and not the larger quotas: for memory that several sessions share. Its
  // owner has charged the larger quotas once; every session that uses it charges its own quota.
  absl::Status TakeHere(int64_t bytes);
  void GiveHere(int64_t bytes) { used_.fetch_sub(bytes, std::memory_order_relaxed); }
  // NoteReclaimable for such bytes.
  void NoteReclaimableHere(int64_t bytes) {
    reclaimable_.fetch_add(bytes, std::memory_order_relaxed);
  }
  // Counts charged bytes as those that `reclaim` can give back, here and in the larger quotas.
  // Negative: no longer.
  void NoteReclaimable(int64_t bytes);
  // All that is charged here can be given back by `reclaim` of the larger quotas. Set before the
  // quota is used.
  void set_all_reclaimable() { all_reclaimable_ = true; }

  // Bytes that could be charged now, here and in the larger quotas, if a part of each limit, one of
  // `parts`, shall stay free.
  int64_t FreeBeside(int64_t parts) const;

  int64_t used() const { return used_.load(std::memory_order_relaxed); }
  int64_t limit() const { return limit_.load(std::memory_order_relaxed); }
  // Charges that exist stay, also above the new limit.
  void set_limit(int64_t limit) { limit_.store(limit, std::memory_order_relaxed); }

 private:
  // *own: this quota refused, not a larger one.
  absl::Status TryTake(int64_t bytes, bool* own);
  absl::Status TryTakeHere(int64_t bytes);
  // Nobody must lose kept values for a charge that fails anyway.
  bool ReclaimFor(int64_t bytes);

  const std::string name_;
  Counter& refused_;
  const std::shared_ptr<Quota> kept_;  // owns parent_; null: somebody else does
  Quota* const parent_;
  std::function<bool()> reclaim_;
  bool all_reclaimable_ = false;
  std::atomic<int64_t> limit_;
  std::atomic<int64_t> used_{0}, reclaimable_{0};
};

// Bytes charged to a quota. The destructor gives them back.
class Charge {
 public:
  Charge() = default;
  static absl::StatusOr<Charge> Take(Quota& quota, int64_t bytes, ByteClass what) {
    UOPD_TRY(quota.Take(bytes));
    return Charge(quota, bytes, what);
  }
  static Charge Always(Quota& quota, int64_t bytes, ByteClass what) {
    quota.TakeAlways(bytes);
    return Charge(quota, bytes, what);
  }
  // Quota::TakeHere. The bytes appear in no gauge: whoever has charged them counts them.
  static absl::StatusOr<Charge> TakeHere(Quota& quota, int64_t bytes, ByteClass what) {
    UOPD_TRY(quota.TakeHere(bytes));
    if (what == ByteClass::kKept) quota.NoteReclaimableHere(bytes);
    Charge out;
    out.quota_ = &quota;
    out.bytes_ = bytes;
    out.what_ = what;
    out.here_ = true;
    return out;
  }
  ~Charge() { Release(); }
  Charge(Charge&& other) noexcept
      : quota_(std::exchange(other.quota_, nullptr)),
        bytes_(other.bytes_),
        what_(other.what_),
        here_(other.here_) {}
  Charge& operator=(Charge&& other) noexcept {
    Release();
    quota_ = std::exchange(other.quota_, nullptr);
    bytes_ = other.bytes_;
    what_ = other.what_;
    here_ = other.here_;
    return *this;
  }

 private:
  Charge(Quota& quota, int64_t bytes, ByteClass what);
  void Release();

  Quota* quota_ = nullptr;  // null: nothing is charged
  int64_t bytes_ = 0;
  ByteClass what_ = ByteClass::kBuffers;
  bool here_ = false;  // charged to this quota alone
};

}  // namespace uopd::engine
