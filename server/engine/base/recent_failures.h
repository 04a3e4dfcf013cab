// SPDX-License-Identifier: MIT
// Failures that would happen again: remembered for a short time, so that clients that try again do
// not make the daemon do the same work for nothing.
//
// Each kind has its own life, because each has another cure: a device that cannot do something gets
// no better by itself, a compiler that refuses a kernel may be replaced, a tuning that failed may
// have met a busy machine. A life of 0 remembers nothing. Kept in this process only, and bounded.
// Failures with outside causes (a deadline, a cancelled call, no memory, a lost device, a worker
// that crashed: its job is in quarantine) are none of these. Thread-safe.
#pragma once
#include <array>
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "cache/base/blobs.h"
#include "core/base/digest.h"
#include "core/base/mutex.h"
#include "core/base/status.h"

namespace uopd::engine {

enum class FailureKind : uint8_t {
  kUnsupported,  // the device cannot do it
  kCompiler,     // the code generator or the compiler refuses it
  kTuning,       // the kernel could not be tuned
};
inline constexpr size_t kFailureKinds = 3;
const char* Name(FailureKind kind);

class RecentFailures {
 public:
  static constexpr size_t kMaxEntries = 4096;  // above it the ones that end first are forgotten
  struct Lives {
    std::chrono::milliseconds unsupported{0}, compiler{0}, tuning{0};
  };

  explicit RecentFailures(const Lives& lives, cache::NowFn now = cache::WallClockUs);

  // The failure of this kind under the key of what was to be made. The status of the first failure,
  // and its age in the text. Counts a hit.
  std::optional<absl::Status> Find(FailureKind kind, const Digest& key) UOPD_EXCLUDES(mu_);
  void Add(FailureKind kind, const Digest& key, const absl::Status& status) UOPD_EXCLUDES(mu_);

  struct Entry {
    FailureKind kind;
    Digest key;
    int64_t since_us = 0;
    absl::Status status;
  };
  std::vector<Entry> List() UOPD_EXCLUDES(mu_);  // the oldest first
  // How many of each kind are remembered now.
  std::array<size_t, kFailureKinds> Counts() UOPD_EXCLUDES(mu_);
  // Forgets those whose key begins with `prefix` (hexadecimal), and returns how many they were.
  size_t Clear(std::string_view prefix) UOPD_EXCLUDES(mu_);

 private:
  using Entries = absl::flat_hash_map<Digest, Entry>;
  int64_t LifeOf(FailureKind kind) const { return lives_us_[static_cast<size_t>(kind)]; }
  // Drops what has ended, and, if there is still no room, the oldest half.
  void MakeRoom(int64_t now_us) UOPD_REQUIRES(mu_);

  const std::array<int64_t, kFailureKinds> lives_us_;
  const cache::NowFn now_;
  Mutex mu_;
  std::array<Entries, kFailureKinds> entries_ UOPD_GUARDED_BY(mu_);
};

// Marks the failure of a job that is in quarantine: RecentFailures is not the one to remember it.
absl::Status InQuarantine(absl::Status status);
// The kind of a failed compile; nullopt: it may succeed when it is tried again, or the quarantine
// knows it.
std::optional<FailureKind> KindOfCompileFailure(const absl::Status& status);

}  // namespace uopd::engine
