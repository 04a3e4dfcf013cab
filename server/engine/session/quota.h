// SPDX-License-Identifier: MIT
// A bound on bytes, perhaps within a larger bound, and the charges against it: every byte that the
// daemon holds for a client, by what it is held for (uopd_client_bytes).
//
// Thread-safe, lock-free. A quota outlives its charges and the quotas within it.
#pragma once
#include <atomic>
#include <cstdint>
#include <string>
#include <utility>

#include "core/base/status.h"

namespace uopd::engine {

enum class ByteClass : uint8_t {
  kBuffers,   // buffers of sessions and memory of runs
  kMessages,  // requests that wait or are worked on
  kAnswers,   // that the client has not taken yet
  kResults,   // of requests that may be repeated
};

class Quota {
 public:
  // `name` completes "... exceed <name>": "limits.session_bytes".
  Quota(std::string name, int64_t limit, Quota* parent = nullptr)
      : name_(std::move(name)), parent_(parent), limit_(limit) {}
  Quota(const Quota&) = delete;
  Quota& operator=(const Quota&) = delete;

  // RESOURCE_EXHAUSTED names the bound; then nothing is taken anywhere.
  absl::Status Take(int64_t bytes);
  // Of what is there already, and bounded elsewhere: also beyond the limit, so that less is left.
  void TakeAlways(int64_t bytes);
  void Give(int64_t bytes);

  int64_t used() const { return used_.load(std::memory_order_relaxed); }
  int64_t limit() const { return limit_.load(std::memory_order_relaxed); }
  // What is charged already stays.
  void set_limit(int64_t limit) { limit_.store(limit, std::memory_order_relaxed); }

 private:
  const std::string name_;
  Quota* const parent_;
  std::atomic<int64_t> limit_;
  std::atomic<int64_t> used_{0};
};

// Bytes taken from a quota until the end of this object.
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
  ~Charge() { Release(); }
  Charge(Charge&& other) noexcept
      : quota_(std::exchange(other.quota_, nullptr)), bytes_(other.bytes_), what_(other.what_) {}
  Charge& operator=(Charge&& other) noexcept {
    Release();
    quota_ = std::exchange(other.quota_, nullptr);
    bytes_ = other.bytes_;
    what_ = other.what_;
    return *this;
  }

 private:
  Charge(Quota& quota, int64_t bytes, ByteClass what);
  void Release();

  Quota* quota_ = nullptr;  // null: nothing is charged
  int64_t bytes_ = 0;
  ByteClass what_ = ByteClass::kBuffers;
};

}  // namespace uopd::engine
