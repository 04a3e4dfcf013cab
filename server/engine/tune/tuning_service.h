// SPDX-License-Identifier: MIT
// Tuning behind the requests: a queue of programs, one thread that tunes their kernels one after
// the other, and the store of what was found.
//
//   Add ──► queue ──► for every kernel:  store "tuning" ── hit ──────────────► use
//                                            │ miss                             ▲
//                                            ▼                                  │
//                                       lease ── granted ── KernelTuner ── put ─┤
//                                            └── busy ── wait for the value ────┘
//
// So N clients of N daemons on one data folder tune a kernel once. The lease is renewed while the
// tuner works; a daemon that dies or freezes loses it, and a waiter takes over. A kernel that fails
// to tune keeps what it has and is not tried again by this process.
//
// Thread-safe.
#pragma once
#include <atomic>
#include <condition_variable>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "cache/load_or_compute.h"
#include "core/base/mutex.h"
#include "server/engine/tune/kernel_tuner.h"

namespace uopd::engine {

struct TuningTask {
  struct Kernel {
    std::string_view graph;  // owned by what `use` holds
    const devices::Device* device = nullptr;
    std::string name;   // in the log
    bool done = false;  // has what tuning found already
  };
  CompileOptions options;
  std::vector<Kernel> kernels;
  // The program that the kernels are for. Tuning ends when nobody has it any more.
  std::weak_ptr<const void> program;
  // Puts what was found for kernels[i] into the program; on the tuning thread.
  std::function<absl::Status(size_t i, const TuningRecord& found)> use;
};

class TuningService {
 public:
  static constexpr size_t kMaxQueued = 4096;  // tasks; more are dropped

  struct Options {
    std::string owner;              // of leases, for people to read
    int64_t lease_us = 10'000'000;  // renewed at a third of it
  };

  // `tuner` and `store` outlive the service. A null tuner finds nothing and tunes nothing.
  TuningService(Options options, cache::Store& store, KernelTuner* tuner);
  ~TuningService() { Stop(); }

  bool offered() const { return tuner_ != nullptr; }
  // What was found before, by whomever. nullopt also when the request wants it found anew.
  std::optional<TuningRecord> Find(std::string_view graph, const devices::Device& device,
                                   const CompileOptions& options);
  void Add(TuningTask task) UOPD_EXCLUDES(mu_);
  // Ends the running search within the time that killing a worker takes; drops the rest. For good.
  void Stop() UOPD_EXCLUDES(mu_);

 private:
  struct Obtained {
    TuningRecord record;
    bool found = false;  // somebody else's
  };

  void Work() UOPD_EXCLUDES(mu_);
  void Run(TuningTask& task);
  void TuneOne(TuningTask& task, size_t i);
  absl::StatusOr<Obtained> Obtain(const cache::Key& key, const TuningTask& task, size_t i);
  cache::Key KeyOf(std::string_view graph, const devices::Device& device,
                   const CompileOptions& options) const;
  bool stopped() const { return stopped_.load(std::memory_order_relaxed); }

  const Options options_;
  cache::Store& store_;
  KernelTuner* const tuner_;
  std::atomic<bool> stopped_{false};
  Mutex mu_;
  std::condition_variable wake_;
  std::deque<TuningTask> queue_ UOPD_GUARDED_BY(mu_);
  cache::LoadGroup flights_;
  absl::flat_hash_set<Digest> failed_;  // of the tuning thread
  std::thread thread_;
};

}  // namespace uopd::engine
