// SPDX-License-Identifier: MIT
// WorkGate: how a daemon lets requests in, and waits for them when it ends.
//
//   serving --Leave--> leaving --Close--> draining
//
// A daemon that leaves says that it is not ready, and still serves. One that drains refuses new
// requests. Every request holds a Work from its beginning to its end, so that the drain knows when
// all requests are done.
//
// Thread-safe. Outlives its Works.
#pragma once
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <utility>

#include "core/base/mutex.h"
#include "core/base/status.h"

namespace uopd::engine {

class WorkGate;

// Marks one request in progress.
class Work {
 public:
  Work() = default;
  ~Work() { Release(); }
  Work(Work&& other) noexcept : gate_(std::exchange(other.gate_, nullptr)) {}
  Work& operator=(Work&& other) noexcept {
    Release();
    gate_ = std::exchange(other.gate_, nullptr);
    return *this;
  }

 private:
  friend class WorkGate;
  explicit Work(WorkGate* gate) : gate_(gate) {}
  inline void Release();
  WorkGate* gate_ = nullptr;
};

class WorkGate {
 public:
  // Begins a request. UNAVAILABLE once the daemon drains.
  absl::StatusOr<Work> Begin();
  void Leave() { leaving_.store(true, std::memory_order_release); }
  void Close();
  bool leaving() const { return leaving_.load(std::memory_order_acquire); }
  bool draining() const { return draining_.load(std::memory_order_acquire); }

  int64_t working() const { return working_.load(); }  // requests
  // REQUIRES: Close was called. False: there are still some at `deadline`.
  bool AwaitNone(std::chrono::steady_clock::time_point deadline) UOPD_EXCLUDES(mu_);

 private:
  friend class Work;
  void End() UOPD_EXCLUDES(mu_);

  std::atomic<bool> leaving_{false}, draining_{false};
  std::atomic<int64_t> working_{0};
  Mutex mu_;
  std::condition_variable drained_;
};

void Work::Release() {
  if (gate_ != nullptr) std::exchange(gate_, nullptr)->End();
}

}  // namespace uopd::engine
