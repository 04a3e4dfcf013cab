// SPDX-License-Identifier: MIT
// The settings that calls look at, with their values of now. Reload changes those that may change
// while the daemon runs.
//
// Thread-safe.
#pragma once
#include <atomic>
#include <chrono>
#include <cstdint>
#include <vector>

#include "core/base/config/config.h"
#include "core/base/mutex.h"
#include "server/engine/operate/daemon_status.h"

namespace uopd::engine {

class LiveSettings {
 public:
  explicit LiveSettings(const Config& config);
  void Reload(const Config& config) UOPD_EXCLUDES(mu_);
  // All settings of the daemon, for people.
  std::vector<SettingView> InEffect() const UOPD_EXCLUDES(mu_);

  // These three settings do not change.
  int64_t max_return_bytes() const { return max_return_bytes_; }  // of one answer
  int cache_level() const { return cache_level_; }  // upper bound of a request's cache_level
  bool cache_writes() const { return cache_writes_; }

  int64_t session_bytes() const { return session_bytes_.load(std::memory_order_relaxed); }
  int64_t kept_bytes() const { return kept_bytes_.load(std::memory_order_relaxed); }
  std::chrono::milliseconds run_limit() const { return Ms(run_ms_); }
  int debug_level() const { return debug_.load(std::memory_order_relaxed); }
  int beam() const { return beam_.load(std::memory_order_relaxed); }  // of who asks for none
  // How long a stream may wait for its client.
  std::chrono::milliseconds stream_idle() const { return Ms(stream_idle_ms_); }
  // Requests that take longer are written to the log. 0: none.
  int64_t slow_ns() const { return slow_ns_.load(std::memory_order_relaxed); }
  std::chrono::milliseconds drain_timeout() const { return Ms(drain_timeout_ms_); }

 private:
  static std::chrono::milliseconds Ms(const std::atomic<int64_t>& ms) {
    return std::chrono::milliseconds(ms.load(std::memory_order_relaxed));
  }

  const int64_t max_return_bytes_;
  const int cache_level_;
  const bool cache_writes_;
  std::atomic<int64_t> session_bytes_{0}, kept_bytes_{0}, run_ms_{0}, stream_idle_ms_{0},
      slow_ns_{0}, drain_timeout_ms_{0};
  std::atomic<int> debug_{0}, beam_{0};
  mutable Mutex mu_;
  std::vector<SettingView> views_ UOPD_GUARDED_BY(mu_);
};

}  // namespace uopd::engine
