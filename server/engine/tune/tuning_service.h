// SPDX-License-Identifier: MIT
// Tuning in the background. Every processor has a queue of programs and a thread that tunes their
// kernels one after the other. A store keeps the results. Kernels of devices that share a processor
// (DeviceInfo) are never measured at the same time.
//
//   Add ──► queue ──► for every kernel:  store "tuning" ── hit ──────────────► use
//                                            │ miss                             ▲
//                                            ▼                                  │
//                                       lease ── granted ── KernelTuner ── put ─┤
//                                            └── busy ── wait for the value ────┘
//
// A winner that was imported (store "unproven") takes the place of the search, after a run of it
// has given the same results as the kernel without opts. One that does not is removed, and the
// kernel is tuned.
//
// So a kernel is tuned once, even for N clients of N daemons on one data folder. The lease is
// renewed while the tuner works. A daemon that dies or freezes loses its lease, and a waiting
// daemon takes over. A kernel whose tuning fails keeps its present opts, and this process does not
// try it again for a while (RecentFailures).
//
// What a daemon of another machine found is used when it arrives (cache::Arrivals), also for
// programs that still wait in a queue.
//
// Thread-safe.
#pragma once
#include <atomic>
#include <condition_variable>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "cache/cluster/search_gate.h"
#include "cache/load_or_compute.h"
#include "core/base/mutex.h"
#include "core/base/work_limits.h"
#include "server/engine/base/recent_failures.h"
#include "server/engine/tune/kernel_tuner.h"
#include "server/engine/tune/tuning_observer.h"

namespace uopd::engine {

struct TuningTask {
  struct Kernel {
    std::string_view graph;  // owned by an object that `use` holds
    const devices::Device* device = nullptr;
    std::string name;   // for the log
    bool done = false;  // has the opts that tuning found already
  };
  CompileOptions options;
  std::vector<Kernel> kernels;
  // The program that the kernels belong to. Its tuning ends when nobody holds the program any more.
  std::weak_ptr<const void> program;
  // Puts the result for kernels[i] into the program. Called on any tuning thread, also on several
  // at the same time.
  std::function<absl::Status(size_t i, const TuningRecord& found)> use;
  // Follows the tuning. Null: nobody does. Kept until the last call.
  std::shared_ptr<TuningObserver> observer;

  bool wanted() const {
    return !program.expired() && (observer == nullptr || !observer->cancelled());
  }
};

class TuningService {
 public:
  static constexpr size_t kMaxQueued = 4096;  // tasks per processor; more are dropped

  struct Options {
    std::string owner;              // for leases (LeaseOwner)
    int64_t lease_us = 10'000'000;  // renewed after a third of this time
    std::chrono::microseconds patience = std::chrono::minutes(
        8);                  // LoadOptions::patience, of a wait for the search of another daemon
    cache::SearchGate gate;  // with a cluster: when a search may begin
    // Remembers which kernels could not be tuned. Null: this process does not try them again.
    RecentFailures* failures = nullptr;
  };

  // `tuner` and `store` outlive the service. With a null tuner, nothing is found and nothing is
  // tuned.
  TuningService(Options options, cache::Store& store, KernelTuner* tuner);
  ~TuningService() { Stop(); }

  bool offered() const { return tuner_ != nullptr; }
  // The result of earlier tuning, by this daemon or another. Also nullopt if the request wants the
  // kernel tuned again.
  std::optional<TuningRecord> Find(std::string_view graph, const devices::Device& device,
                                   const CompileOptions& options);
  void Add(TuningTask task) UOPD_EXCLUDES(mu_);
  // KernelTuner::Prove, in turn with the tuning of the same processor. UNIMPLEMENTED: there is no
  // tuner.
  absl::StatusOr<TuningRecord> Prove(std::string_view graph, const devices::Device& device,
                                     const CompileOptions& options, const Opts& opts,
                                     const WorkLimits& limits) UOPD_EXCLUDES(mu_);
  // Where winners from outside wait until somebody wants them: under the key of their tuning, in
  // this store. They are used only after Prove. `key` is the key of a tuning.
  static cache::Key UnprovenKey(const cache::Key& key) {
    return {cache::kUnprovenStore, key.semantic(), key.environment()};
  }
  // Kernels of all tasks that are not done.
  size_t kernels_left() const { return kernels_left_.load(std::memory_order_relaxed); }
  // Ends the running searches for good, within the time that killing a worker takes. Drops the
  // rest.
  void Stop() UOPD_EXCLUDES(mu_);

 private:
  struct Obtained {
    TuningRecord record;
    bool found = false;  // another daemon found it
  };

  // The kernels of a program that are tuned on one processor.
  struct Part {
    explicit Part(TuningTask&& its) : task(std::move(its)), taken(task.kernels.size()) {}
    TuningTask task;
    std::vector<Digest> addresses;         // by kernel; of those that are not done only
    std::vector<std::atomic<bool>> taken;  // by kernel: somebody uses its result, or it gets none
  };
  using PartPtr = std::shared_ptr<Part>;
  // The right to end kernel `i` of a part, which one thread gets. Counts the kernel as done at the
  // end.
  class Taken {
   public:
    Taken(TuningService& service, Part& part, size_t i)
        : service_(service), mine_(!part.taken[i].exchange(true)) {}
    ~Taken() {
      if (mine_) service_.kernels_left_.fetch_sub(1);
    }
    Taken(const Taken&) = delete;
    Taken& operator=(const Taken&) = delete;
    explicit operator bool() const { return mine_; }

   private:
    TuningService& service_;
    const bool mine_;
  };
  struct Arrived {
    std::string value;  // a record
    std::vector<std::pair<PartPtr, size_t>> kernels;
  };

  // The tuning of one processor.
  struct Queue {
    std::deque<PartPtr> parts;     // guarded by mu_
    std::condition_variable wake;  // with mu_
    absl::flat_hash_set<Digest>
        failed;  // used by the queue's thread only; empty with Options::failures
    std::thread thread;
    bool measuring = false;  // guarded by mu_: a call of the tuner is running
    bool running = false;    // guarded by mu_: a part is run
  };
  // The right to call the tuner for a processor; one holder at a time.
  class Turn;

  void Work(Queue& queue) UOPD_EXCLUDES(mu_);
  // Tells the observer of a part how many others are ahead of it.
  static void TellAhead(const Part& part, size_t ahead);
  // Waits for workers as long as the tuner would, and says so.
  void AwaitWorkers(const TuningTask& task, size_t i, const WorkLimits& limits);
  // Called when the queue is empty. Calls Rest for the devices of the last task.
  void RestAfter(const Queue& queue, const TuningTask& task) UOPD_EXCLUDES(mu_);
  void Run(Queue& queue, Part& part) UOPD_EXCLUDES(mu_);
  // False: a daemon of another machine tunes the kernel now, and `wait` is not set; or nobody may
  // begin a search now.
  bool TuneOne(Queue& queue, Part& part, size_t i, bool wait);
  // Gives what was found to the program. Counts and logs it.
  absl::Status Use(Part& part, size_t i, const absl::StatusOr<Obtained>& obtained, double seconds);
  // Notes that a row came from another machine.
  void Hear(const cache::Row& row) UOPD_EXCLUDES(mu_);
  void UseArrivals() UOPD_EXCLUDES(mu_);
  // A winner from outside for the kernel, if there is one and it proves to be right. Null: there is
  // none, or none any more, because one that is wrong is removed. One that is right stays until it
  // is kept in the store "tuning".
  std::optional<TuningRecord> ProveImported(const cache::Key& key, const TuningTask::Kernel& kernel,
                                            const CompileOptions& options,
                                            const WorkLimits& limits);
  // Removes the unproven winner if the kernel of `key` has a winner in the store "tuning" that
  // survives a crash.
  void ForgetUnproven(const cache::Key& key);
  // ABORTED: the same.
  absl::StatusOr<Obtained> Obtain(const cache::Key& key, Part& part, size_t i, bool wait);
  // The search for kernel i, which has its turn.
  absl::StatusOr<TuningRecord> Search(const TuningTask& task, size_t i, const WorkLimits& limits);
  cache::Key KeyOf(std::string_view graph, const devices::Device& device,
                   const CompileOptions& options) const;
  // A part that is not run any more.
  void Forget(const PartPtr& part) UOPD_REQUIRES(mu_);
  // Ends early if the service stops.
  void Pause(Queue& queue, std::chrono::milliseconds pause) UOPD_EXCLUDES(mu_);
  bool stopped() const { return stopped_.load(std::memory_order_relaxed); }

  const Options options_;
  cache::Store& store_;
  KernelTuner* const tuner_;
  std::atomic<bool> stopped_{false};
  std::atomic<size_t> kernels_left_{0};
  Mutex mu_;
  cache::LoadGroup flights_;
  // By processor. A queue is made when its first task comes. None is removed before Stop.
  std::map<std::string, Queue> queues_ UOPD_GUARDED_BY(mu_);
  std::condition_variable turn_ended_;  // with mu_
  // The kernels of all parts that are queued or run, by the address of their result.
  absl::flat_hash_map<Digest, std::vector<std::pair<PartPtr, size_t>>> awaited_
      UOPD_GUARDED_BY(mu_);
  std::deque<Arrived> arrived_ UOPD_GUARDED_BY(mu_);
  std::condition_variable arrival_;
  std::thread arrivals_thread_ UOPD_GUARDED_BY(mu_);
  std::optional<cache::Arrivals::Subscription> subscription_;
};

}  // namespace uopd::engine
