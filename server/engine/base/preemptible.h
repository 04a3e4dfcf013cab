// SPDX-License-Identifier: MIT
// Preemptible: work that holds memory which calls may need. There are two kinds. The making of kept
// values ends early when a call needs the memory. A run that uses kept values ends as usual, and no
// later run uses these values.
//
// The memory cannot be taken away at once, because kernels work on it. So who finds memory short
// preempts the work (Preempt), and a call that found no memory waits until all preempted work has
// ended, and then tries once more (AfterPreempted). A message, which cannot wait, may exceed its
// limit by the bytes that are about to come back (leaving_bytes).
//
// Thread-safe.
#pragma once
#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "core/base/mutex.h"

namespace uopd::engine {

class PreemptibleTable;

// The work has ended when this object is destroyed. The owner frees the memory before.
class Preemptible {
 public:
  Preemptible(const Preemptible&) = delete;
  Preemptible& operator=(const Preemptible&) = delete;
  ~Preemptible();

  // False: it was preempted before it began. Then it must take no memory.
  bool Begin() UOPD_EXCLUDES(mu_);
  void Preempt() UOPD_EXCLUDES(mu_);
  // Becomes true with Preempt. May outlive the object.
  std::shared_ptr<const std::atomic<bool>> preempted() const { return preempted_; }

 private:
  friend class PreemptibleTable;
  // Calls a function when its last owner is gone.
  struct Then {
    absl::AnyInvocable<void()> call;  // null: nothing is called
    ~Then();
  };

  Preemptible(std::shared_ptr<std::atomic<uint64_t>> ends, int64_t bytes)
      : ends_(std::move(ends)), bytes_(bytes) {}
  // True if it holds memory and was preempted. Then it owns `then` until its end.
  bool Keep(const std::shared_ptr<Then>& then) UOPD_EXCLUDES(mu_);
  bool IsLeaving() UOPD_EXCLUDES(mu_);

  const std::shared_ptr<std::atomic<uint64_t>> ends_;  // of the table
  const int64_t bytes_;
  const std::shared_ptr<std::atomic<bool>> preempted_ = std::make_shared<std::atomic<bool>>(false);
  Mutex mu_;
  bool begun_ UOPD_GUARDED_BY(mu_) = false;
  std::vector<std::shared_ptr<Then>> then_ UOPD_GUARDED_BY(mu_);
};

// All such work of a daemon.
class PreemptibleTable {
 public:
  // `bytes`: what it gives back at least.
  std::shared_ptr<Preemptible> New(int64_t bytes) UOPD_EXCLUDES(mu_);
  // The bytes that preempted work still holds.
  int64_t leaving_bytes() UOPD_EXCLUDES(mu_);
  // True: some preempted work still holds memory, and `then` is called once all of it has ended, on
  // the thread that ends the last. False: there is none, and `then` is not called.
  bool AfterPreempted(absl::AnyInvocable<void()> then) UOPD_EXCLUDES(mu_);
  // Waits for the end of the preempted work, at most this long. False: there was none.
  bool AwaitPreempted(std::chrono::milliseconds limit) UOPD_EXCLUDES(mu_);
  // How much preempted work has ended so far. A call that found no memory may find some if this has
  // changed meanwhile.
  uint64_t ends() const { return ends_->load(std::memory_order_acquire); }

 private:
  std::vector<std::shared_ptr<Preemptible>> All() UOPD_EXCLUDES(mu_);

  const std::shared_ptr<std::atomic<uint64_t>> ends_ = std::make_shared<std::atomic<uint64_t>>(0);
  Mutex mu_;
  std::vector<std::weak_ptr<Preemptible>> all_ UOPD_GUARDED_BY(mu_);
};

}  // namespace uopd::engine
