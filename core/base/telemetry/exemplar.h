// SPDX-License-Identifier: MIT
// Exemplars: for each bucket of a histogram, one request that fell into it. They lead from a slow
// bucket in a dashboard to a trace, or to a line of the log.
//
// ExemplarSlots is thread-safe and never waits: a writer that meets another one drops its offer.
#pragma once
#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace uopd {

// Names a request by its trace if its caller has one, otherwise by its own id.
struct ExemplarId {
  static constexpr size_t kMaxSize = 64;  // OpenMetrics allows 128 characters with the label's name

  std::string_view trace_id;    // 32 hexadecimal digits, or empty
  std::string_view request_id;  // used if there is no trace; callers may choose it

  bool traced() const { return !trace_id.empty(); }
  std::string_view text() const { return traced() ? trace_id : request_id; }
  // Not empty, short, and printable ASCII.
  bool usable() const;
};

struct Exemplar {
  std::string_view label;  // "trace_id" or "request_id"
  std::string id;
  double value = 0;
  double time_s = 0;  // since the epoch
};

// Milliseconds since the epoch, as exact as they need be for exemplars and as cheap as can be.
int64_t CoarseMs();

class ExemplarSlots {
 public:
  // A traced request keeps its slot this long against requests without a trace, which are less use.
  static constexpr int64_t kTracedMs = 60'000;
  // An exemplar stays at least this long, so that busy buckets cost little.
  static constexpr int64_t kLeastMs = 1'000;

  explicit ExemplarSlots(size_t count) : count_(count), slots_(std::make_unique<Slot[]>(count)) {}

  // Whether an offer would be taken now: most are not, and cost no more than this.
  bool Wants(size_t slot, bool traced, int64_t now_ms) const {
    return Replaces(slots_[slot].stamp.load(std::memory_order_relaxed), traced, now_ms);
  }
  // REQUIRES: slot < count, id.usable().
  void OfferAt(size_t slot, const ExemplarId& id, double value, int64_t now_ms);
  std::optional<Exemplar> Read(size_t slot) const;

 private:
  struct Slot {
    // Twice the milliseconds since the epoch, and 1 more for a traced request; 0: no exemplar yet.
    // Changes with the rest.
    std::atomic<int64_t> stamp{0};
    std::atomic_flag busy;  // guards the rest
    uint8_t size = 0;
    std::array<char, ExemplarId::kMaxSize> id;
    double value = 0;

    bool traced() const { return (stamp.load(std::memory_order_relaxed) & 1) != 0; }
    int64_t ms() const { return stamp.load(std::memory_order_relaxed) >> 1; }
  };
  static bool Replaces(int64_t stamp, bool traced, int64_t now_ms) {
    if (stamp == 0) return true;
    const bool had_trace = (stamp & 1) != 0;
    const int64_t age_ms = now_ms - (stamp >> 1);
    const int64_t stays_ms = had_trace && !traced ? kTracedMs : kLeastMs;
    return (traced && !had_trace) || age_ms >= stays_ms || age_ms < 0;
  }

  const size_t count_;
  const std::unique_ptr<Slot[]> slots_;
};

}  // namespace uopd
