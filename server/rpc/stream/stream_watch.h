// SPDX-License-Identifier: MIT
// Ends streams whose client does nothing. When the daemon shuts down, also ends streams that are
// idle.
//
// A stream tells when it waits for its client. A thread checks all streams a few times a second.
// Thread-safe. Outlives the streams.
#pragma once
#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <thread>

#include "absl/container/flat_hash_map.h"
#include "core/base/mutex.h"

namespace uopd::rpc {

struct WatchLimits {
  std::chrono::milliseconds idle{30'000};
  bool draining = false;
};

enum class WaitFor : uint8_t {
  kMessage,  // that the client sends
  kRoom,     // until the client has read some of what was sent
};

// The time that a client may take to read what is sent to it, or to send what comes next. A daemon
// that shuts down waits for a client that goes on, and not for one that does nothing. A slow client
// reads for seconds from the buffers on the way before the daemon sees that there is room again.
inline int64_t IdleLimitNs(const WatchLimits& limits, WaitFor what) {
  const std::chrono::milliseconds draining(what == WaitFor::kRoom ? 10'000 : 1000);
  return std::chrono::nanoseconds(limits.draining ? std::min(draining, limits.idle) : limits.idle)
      .count();
}

class WatchedStream {
 public:
  virtual ~WatchedStream() = default;
  // Ends the stream if it has waited for its client for longer than `limits` allow. Called on the
  // watch's thread. Any other event of the stream except OnDone may happen at the same time.
  virtual void EndIfIdle(int64_t now_ns, const WatchLimits& limits) = 0;
};

class StreamWatch {
 public:
  explicit StreamWatch(std::function<WatchLimits()> limits);
  ~StreamWatch();
  StreamWatch(const StreamWatch&) = delete;
  StreamWatch& operator=(const StreamWatch&) = delete;

  void Add(const std::shared_ptr<WatchedStream>& stream) UOPD_EXCLUDES(mu_);
  // When it returns, EndIfIdle is not running for `stream` and is not called for it any more.
  void Remove(const WatchedStream* stream) UOPD_EXCLUDES(mu_);

 private:
  void Run() UOPD_EXCLUDES(mu_);
  void LookAt(WatchedStream& stream, int64_t now_ns, const WatchLimits& limits) UOPD_EXCLUDES(mu_);

  const std::function<WatchLimits()> limits_;
  Mutex mu_;
  std::condition_variable changed_;
  bool stop_ UOPD_GUARDED_BY(mu_) = false;
  bool parked_ UOPD_GUARDED_BY(mu_) = false;  // the thread sleeps until it is woken
  absl::flat_hash_map<const WatchedStream*, std::weak_ptr<WatchedStream>> streams_
      UOPD_GUARDED_BY(mu_);
  const WatchedStream* looked_at_ UOPD_GUARDED_BY(mu_) = nullptr;
  std::thread thread_;
};

// Whether a stream waits for its client. Decides who ends the wait: the client's next step or the
// watch.
class ClientWait {
 public:
  void Begin(int64_t now_ns) { since_ns_.store(now_ns, std::memory_order_release); }
  // False: the watch has ended the stream. `waited_ns`, if not null: how long the wait was.
  bool End(int64_t* waited_ns = nullptr) {
    const int64_t since = since_ns_.exchange(0, std::memory_order_acq_rel);
    if (waited_ns != nullptr && since > 0) *waited_ns = NowNs() - since;
    return since != kEnded;
  }
  // True: the stream has waited since before `before_ns`, and the caller is the one that ends the
  // wait.
  bool Overdue(int64_t before_ns) {
    int64_t since = since_ns_.load(std::memory_order_acquire);
    return since > 0 && since <= before_ns &&
           since_ns_.compare_exchange_strong(since, kEnded, std::memory_order_acq_rel);
  }

 private:
  static constexpr int64_t kEnded = -1;
  std::atomic<int64_t> since_ns_{0};  // 0: no wait
};

}  // namespace uopd::rpc
