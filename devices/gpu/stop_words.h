// SPDX-License-Identifier: MIT
// The words that kernels read to see that nobody wants their results: copies of StopFlags in host
// memory that the chip addresses.
//
// Every flag with a launch in flight has a word of its own. A thread copies the flags to the words,
// every millisecond while there is a launch. The same thread is the watchdog: when all launches in
// flight are stopped, and one of them has been for `grace`, its kernel does not poll, and the
// context is declared lost. Launches that are not stopped hold this back, since a stopped kernel
// may wait behind them. A launch may also wait on the chip for another device, whose own watchdog
// decides first; so while there are such waits, the time is longer, and after the last of them a
// launch has `grace` for itself. Time in which the watchdog did not run does not count: the process
// was stopped, or the machine is busy, and the threads that would see a launch end did not run
// either.
//
// Owned by the device and by the leases. Thread-safe.
#pragma once
#include <chrono>
#include <condition_variable>
#include <list>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "core/base/mutex.h"
#include "devices/api/stop_flag.h"
#include "devices/gpu/gpu_memory.h"

namespace uopd::devices::gpu {

class StopWords : public std::enable_shared_from_this<StopWords> {
 private:
  struct Entry;

 public:
  using Clock = std::chrono::steady_clock;

  StopWords(std::shared_ptr<GpuContext> context, std::chrono::milliseconds grace);
  ~StopWords();
  StopWords(const StopWords&) = delete;
  StopWords& operator=(const StopWords&) = delete;

  // Held while a launch is in flight.
  class Lease {
   public:
    Lease(std::shared_ptr<StopWords> words, Entry* entry)
        : words_(std::move(words)), entry_(entry) {}
    ~Lease() { words_->Release(entry_, abandoned_); }
    Lease(const Lease&) = delete;
    Lease& operator=(const Lease&) = delete;
    GpuPointer address() const { return address_; }
    // The host does not wait for the launch any more: the kernel shall end as soon as it begins,
    // and the watchdog leaves it out. At most once.
    void Abandon() const { words_->Abandon(entry_, abandoned_); }

   private:
    friend class StopWords;
    const std::shared_ptr<StopWords> words_;
    Entry* const entry_;
    GpuPointer address_ = 0;
    mutable bool abandoned_ = false;
  };
  // Null: a word that stays 0. RESOURCE_EXHAUSTED: no pinned memory left.
  absl::StatusOr<std::shared_ptr<const Lease>> Take(std::shared_ptr<const StopFlag> maybe_flag)
      UOPD_EXCLUDES(mu_);

 private:
  struct Word {
    std::atomic<uint32_t>* host = nullptr;
    GpuPointer address = 0;
  };
  struct Entry {
    std::shared_ptr<const StopFlag> flag;  // null: launches that nothing stops
    Word word;
    int leases = 0;
    int abandoned = 0;  // of the leases
    // The value of running_ when the watchdog began to wait for the launches. Empty: it does not
    // wait.
    std::optional<Clock::duration> stopped_at;
  };

  void Release(Entry* entry, bool abandoned) UOPD_EXCLUDES(mu_);
  void Abandon(Entry* entry, bool& abandoned) UOPD_EXCLUDES(mu_);
  absl::StatusOr<Word> TakeWord() UOPD_REQUIRES(mu_);
  void Watch() UOPD_EXCLUDES(mu_);
  void Look() UOPD_REQUIRES(mu_);

  const std::shared_ptr<GpuContext> context_;
  const std::chrono::milliseconds grace_;
  PinnedMemory memory_;
  Mutex mu_;
  std::condition_variable changed_;
  std::list<Entry> entries_ UOPD_GUARDED_BY(mu_);
  absl::flat_hash_map<const StopFlag*, Entry*> by_flag_ UOPD_GUARDED_BY(mu_);
  std::vector<Word> idle_ UOPD_GUARDED_BY(mu_);  // the word used last is at the end
  std::vector<void*> blocks_ UOPD_GUARDED_BY(mu_);
  bool ending_ UOPD_GUARDED_BY(mu_) = false;
  Clock::duration running_ UOPD_GUARDED_BY(mu_){};  // how long the watchdog has looked
  // The value of running_ when the watchdog last saw a wait for another device.
  Clock::duration waited_elsewhere_ UOPD_GUARDED_BY(mu_){};
  std::thread watcher_;
};

}  // namespace uopd::devices::gpu
