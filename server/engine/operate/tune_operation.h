// SPDX-License-Identifier: MIT
// One tuning operation of this daemon: it follows the tuning of its kernels, shares its budget
// among them, and tells those who watch what changed.
//
// Watchers have no queue. Each has a cursor (TuneCursor) that says what it knows, and Changes gives
// what is new since then. So a watcher that is slow gets fewer and larger updates, each bounded,
// and costs nothing while it does not ask.
//
// Thread-safe. It calls nobody while it holds its lock.
#pragma once
#include <array>
#include <atomic>
#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/base/mutex.h"
#include "server/engine/compile/program/tuning_plan.h"
#include "server/engine/operate/tune_state.h"
#include "server/engine/tune/tuning_observer.h"

namespace uopd::engine {

// What a watcher knows. A new one knows nothing.
struct TuneCursor {
  struct Kernel {
    uint64_t version = 0;
    uint32_t search = 0, candidate = 0;  // the last point that it has
  };
  // In `plans`: the watcher knows kernels of another object, which it has to forget.
  static constexpr uint32_t kOtherObject = UINT32_MAX;
  uint64_t head = 0;   // version
  uint32_t plans = 0;  // the list of kernels that `kernels` are of; 0: of none
  std::vector<Kernel> kernels;
};

// A part of what is new.
struct TuneChanges {
  static constexpr size_t kMaxKernels = 256;

  bool any = false;     // otherwise nothing else is set
  bool replan = false;  // the list of kernels is another one: forget all of them
  bool more = false;    // ask again for the rest
  TuneState head;       // without kernels
  std::string host;
  size_t kernels = 0;  // how many there are
  std::array<size_t, static_cast<size_t>(KernelPhase::kSkipped) + 1> counts{};  // by phase
  uint64_t pruned = 0, duplicates = 0;  // of all kernels together, as in TunedKernelState
  std::string waits_for;  // if no kernel is searched: what the first one that waits waits for
  // Kernels that changed, by number. Their points are those that are new.
  std::vector<std::pair<size_t, TunedKernelState>> changed;
};

class TuneOperation final : public TuningObserver {
 public:
  static constexpr size_t kMaxPoints = 8192;  // of all kernels together
  static constexpr size_t kMaxPointsOfKernel = 128;
  // The least time that a kernel gets, unless less is left. Shorter searches measure nothing.
  static constexpr std::chrono::milliseconds kLeastTime{1000};
  static constexpr int kLeastCandidates = 4;

  explicit TuneOperation(TuneState state);

  const std::string& id() const { return id_; }
  const std::string& tenant() const { return tenant_; }
  // Whether the client asked for it by this id.
  bool Asked(std::string_view request_id) const { return request_id_ == request_id; }
  TunePhase phase() const UOPD_EXCLUDES(mu_);
  TuneState Copy() const UOPD_EXCLUDES(mu_);
  // What is new for the cursor, which moves. Without kernels: only the head and the counts.
  TuneChanges Changes(TuneCursor& cursor) const UOPD_EXCLUDES(mu_);
  TuneChanges Summary() const UOPD_EXCLUDES(mu_);
  // Grows with every change.
  uint64_t version() const { return version_.load(std::memory_order_acquire); }

  // planning → running, with the kernels of the plan. What is known about them from an earlier
  // attempt stays. `found[i]` is what the cache has for kernel i. Returns the kernels that are left
  // to tune, the most expensive first. With none left, and also if somebody ended it meanwhile,
  // there are none.
  std::vector<size_t> Run(const TuningPlan& plan,
                          const std::vector<std::optional<TuningRecord>>& found) UOPD_EXCLUDES(mu_);
  void Fail(const absl::Status& why) UOPD_EXCLUDES(mu_);
  void Interrupt(std::string why) UOPD_EXCLUDES(mu_);
  // FAILED_PRECONDITION: it is over.
  absl::Status Cancel() UOPD_EXCLUDES(mu_);
  // The state of an operation that goes on from this one, with more budget if some is given. It is
  // another object, because a search for this one may not have noticed yet that it was cancelled.
  // FAILED_PRECONDITION: it is not over, or it is done and left nothing out.
  absl::StatusOr<TuneState> Resumed(int64_t more_budget_us, uint64_t more_candidates) const
      UOPD_EXCLUDES(mu_);
  // One more daemon begins with it.
  void CountAttempt() UOPD_EXCLUDES(mu_);
  // The daemon ends: searches stop, and the state stays as it is for the next daemon. This attempt
  // ended well.
  void Pause() UOPD_EXCLUDES(mu_);
  // For an operation that another daemon of the data folder runs: its present state.
  void Replace(TuneState state) UOPD_EXCLUDES(mu_);
  // The daemon that runs it, for people; empty: none does.
  void set_host(std::string host) UOPD_EXCLUDES(mu_);

  bool cancelled() const override { return stop_.load(std::memory_order_acquire); }
  absl::StatusOr<SearchLimits> Begin(size_t kernel) override UOPD_EXCLUDES(mu_);
  void Tried(size_t kernel, const search::Trial& trial) override UOPD_EXCLUDES(mu_);
  void LeftOut(size_t kernel, uint64_t pruned, uint64_t duplicates) override UOPD_EXCLUDES(mu_);
  void WaitsFor(size_t kernel, std::string_view what) override UOPD_EXCLUDES(mu_);
  void Ended(size_t kernel, const absl::StatusOr<TuningRecord>& result, bool found) override
      UOPD_EXCLUDES(mu_);

 private:
  struct Live {
    uint64_t version = 0;
    int64_t since_ns = 0;  // the search began; 0: there is none
    SearchLimits limits;   // of the search
  };

  void Touch(size_t kernel) UOPD_REQUIRES(mu_);
  void TouchHead() UOPD_REQUIRES(mu_);
  // Adds the time of the kernel's search, if there is one.
  void EndSearch(size_t kernel) UOPD_REQUIRES(mu_);
  // Kernels that are not over are pending again.
  void StopAll() UOPD_REQUIRES(mu_);
  void End(TunePhase phase) UOPD_REQUIRES(mu_);
  void EndIfDone() UOPD_REQUIRES(mu_);
  void Fill(TuneChanges& out) const UOPD_REQUIRES(mu_);
  int64_t SpentUs() const UOPD_REQUIRES(mu_);
  SearchLimits ShareOf(size_t kernel) const UOPD_REQUIRES(mu_);
  size_t PointLimit() const UOPD_REQUIRES(mu_);

  const std::string id_, tenant_, request_id_;
  mutable Mutex mu_;
  TuneState state_ UOPD_GUARDED_BY(mu_);
  std::vector<Live> live_ UOPD_GUARDED_BY(mu_);
  uint64_t head_version_ UOPD_GUARDED_BY(mu_) = 0;
  uint32_t plans_ UOPD_GUARDED_BY(mu_) = 1;
  std::string host_ UOPD_GUARDED_BY(mu_);
  std::atomic<uint64_t> version_{0};
  std::atomic<bool> stop_{false};
};

}  // namespace uopd::engine
