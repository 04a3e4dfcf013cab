// SPDX-License-Identifier: MIT
// Where the time of a request goes: nanoseconds per phase, and optionally a trace for
// chrome://tracing.
//
//   PhaseTimings timings;
//   { ScopedPhase phase(Phase::kCodegen, &timings, trace); ... }       // trace may be null
//
// Phases do not overlap: starting one inside another pauses the outer one, so that the sum is at
// most the elapsed time. PhaseTimings belongs to one thread at a time; Trace is thread-safe and
// bounded.
#pragma once
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/mutex.h"
#include "core/base/telemetry/exemplar.h"

namespace uopd {

// In the order in which a request passes them.
// clang-format off: it does not settle on a layout for this list
#define UOPD_PHASES(X) \
  X(Queue, queue) X(Verify, verify) X(Schedule, schedule) X(Codegen, codegen) X(Render, render) \
  X(Compile, compile) X(Load, load) X(Tune, tune) X(Copy, copy) X(Run, run)
// clang-format on

enum class Phase : uint8_t {
#define X(Name, name) k##Name,
  UOPD_PHASES(X)
#undef X
};
#define X(Name, name) +1
inline constexpr size_t kPhaseCount = 0 UOPD_PHASES(X);
#undef X

std::string_view PhaseName(Phase phase);  // "codegen"

// Monotonic time in nanoseconds.
inline int64_t NowNs() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

class ScopedPhase;

struct PhaseTimings {
  std::array<int64_t, kPhaseCount> ns{};

  int64_t operator[](Phase phase) const { return ns[static_cast<size_t>(phase)]; }
  void Add(Phase phase, int64_t duration_ns) { ns[static_cast<size_t>(phase)] += duration_ns; }
  void Add(const PhaseTimings& other);  // the time of another thread for the same request
  int64_t total_ns() const;
  // Counts every phase that took time into uopd_phase_duration_seconds{phase}, with `id` as the
  // exemplar.
  void Observe(const ExemplarId& id = {}) const;

 private:
  friend class ScopedPhase;
  ScopedPhase* running_ = nullptr;
};

// Events of one request.
class Trace {
 public:
  explicit Trace(size_t max_events = 100000) : max_events_(max_events), start_ns_(NowNs()) {}

  // Times are from NowNs(). Events beyond the bound are dropped and counted.
  void Add(std::string name, int64_t begin_ns, int64_t end_ns);
  // The JSON array format of Chrome's trace viewer and Perfetto; times in microseconds since the
  // trace began.
  std::string Json() const;
  size_t dropped() const;

 private:
  struct Event {
    std::string name;
    int64_t begin_ns, end_ns;
    unsigned thread;  // small numbers in order of first use in the process
  };
  const size_t max_events_;
  const int64_t start_ns_;
  mutable Mutex mu_;
  std::vector<Event> events_ UOPD_GUARDED_BY(mu_);
  size_t dropped_ UOPD_GUARDED_BY(mu_) = 0;
};

// Adds its lifetime without that of phases inside it to `timings`, and its whole lifetime to
// `trace`.
class ScopedPhase {
 public:
  explicit ScopedPhase(Phase phase, PhaseTimings* timings, Trace* trace = nullptr);
  ~ScopedPhase();
  ScopedPhase(const ScopedPhase&) = delete;
  ScopedPhase& operator=(const ScopedPhase&) = delete;

 private:
  const Phase phase_;
  PhaseTimings* const timings_;
  Trace* const trace_;
  ScopedPhase* const outer_;
  const int64_t begin_ns_;
  int64_t resumed_ns_;  // when the clock of this phase last started to run
};

}  // namespace uopd
