// SPDX-License-Identifier: MIT
#include "core/base/telemetry/trace.h"

#include <atomic>

#include "absl/strings/str_format.h"
#include "core/base/telemetry/metrics.h"

namespace uopd {
namespace {

constexpr std::string_view kNames[] = {
#define X(Name, name) #name,
    UOPD_PHASES(X)
#undef X
};

unsigned ThisThread() {
  static std::atomic<unsigned> next{1};
  thread_local const unsigned number = next.fetch_add(1, std::memory_order_relaxed);
  return number;
}

void AppendJsonString(std::string* out, std::string_view text) {
  out->push_back('"');
  for (char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      out->push_back('\\');
      out->push_back(c);
    } else if (byte < ' ') {
      absl::StrAppendFormat(out, "\\u%04x", byte);
    } else {
      out->push_back(c);
    }
  }
  out->push_back('"');
}

}  // namespace

std::string_view PhaseName(Phase phase) { return kNames[static_cast<size_t>(phase)]; }

void PhaseTimings::Add(const PhaseTimings& other) {
  for (size_t i = 0; i < kPhaseCount; i++) ns[i] += other.ns[i];
}

int64_t PhaseTimings::total_ns() const {
  int64_t total = 0;
  for (int64_t phase : ns) total += phase;
  return total;
}

void PhaseTimings::Observe(const ExemplarId& id) const {
  static const auto histograms = [] {
    std::array<Histogram*, kPhaseCount> out;
    for (size_t i = 0; i < kPhaseCount; i++) out[i] = &metrics::PhaseDuration({kNames[i]});
    return out;
  }();
  for (size_t i = 0; i < kPhaseCount; i++) {
    if (ns[i] > 0) histograms[i]->Observe(static_cast<double>(ns[i]) * 1e-9, id);
  }
}

void Trace::Add(std::string name, int64_t begin_ns, int64_t end_ns) {
  const unsigned thread = ThisThread();
  MutexLock lock(mu_);
  if (events_.size() >= max_events_) {
    dropped_++;
    return;
  }
  events_.push_back({std::move(name), begin_ns, end_ns, thread});
}

std::string Trace::Json() const {
  MutexLock lock(mu_);
  std::string out = "[";
  for (size_t i = 0; i < events_.size(); i++) {
    const Event& event = events_[i];
    out += i ? ",\n{\"name\":" : "\n{\"name\":";
    AppendJsonString(&out, event.name);
    absl::StrAppendFormat(&out, ",\"ph\":\"X\",\"pid\":1,\"tid\":%u,\"ts\":%.3f,\"dur\":%.3f}",
                          event.thread, static_cast<double>(event.begin_ns - start_ns_) * 1e-3,
                          static_cast<double>(event.end_ns - event.begin_ns) * 1e-3);
  }
  out += "\n]\n";
  return out;
}

size_t Trace::dropped() const {
  MutexLock lock(mu_);
  return dropped_;
}

ScopedPhase::ScopedPhase(Phase phase, PhaseTimings* timings, Trace* trace)
    : phase_(phase),
      timings_(timings),
      trace_(trace),
      outer_(timings->running_),
      begin_ns_(NowNs()),
      resumed_ns_(begin_ns_) {
  if (outer_) timings_->Add(outer_->phase_, begin_ns_ - outer_->resumed_ns_);
  timings_->running_ = this;
}

ScopedPhase::~ScopedPhase() {
  const int64_t now = NowNs();
  timings_->Add(phase_, now - resumed_ns_);
  if (outer_) outer_->resumed_ns_ = now;
  timings_->running_ = outer_;
  if (trace_) trace_->Add(std::string(PhaseName(phase_)), begin_ns_, now);
}

}  // namespace uopd
