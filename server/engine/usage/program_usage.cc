// SPDX-License-Identifier: MIT
#include "server/engine/usage/program_usage.h"

#include <string_view>

#include "core/base/telemetry/metrics.h"

namespace uopd::engine {
namespace {

constexpr std::array<std::string_view, kOutcomeCount> kOutcomeNames = {"ok", "refused", "failed"};
constexpr size_t kNameDigits = 12;
// The objective of latency (deploy/prometheus/recording_rules.yml).
constexpr int64_t kWaitNs = 1'000'000'000;

}  // namespace

void ProgramUse::Add(Outcome outcome, const RequestParts& parts) {
  for (size_t i = 0; i < kPartCount; ++i) {
    if (parts.ns[i] > 0)
      ns_[i].fetch_add(static_cast<uint64_t>(parts.ns[i]), std::memory_order_relaxed);
  }
  requests_[static_cast<size_t>(outcome)].fetch_add(1, std::memory_order_relaxed);
  if (parts.waited_ns() > kWaitNs) waits_.fetch_add(1, std::memory_order_relaxed);
}

int64_t ProgramUse::Publish(const Name& name) {
  for (size_t i = 0; i < kOutcomeCount; ++i) {
    const uint64_t requests = requests_[i].exchange(0, std::memory_order_relaxed);
    if (requests > 0) metrics::ProgramRequests({name, kOutcomeNames[i]}).Increment(requests);
  }
  if (const uint64_t waits = waits_.exchange(0, std::memory_order_relaxed); waits > 0)
    metrics::ProgramWaits({name}).Increment(waits);
  uint64_t total_ns = 0;
  for (size_t i = 0; i < kPartCount; ++i) {
    const uint64_t ns = ns_[i].exchange(0, std::memory_order_relaxed);
    total_ns += ns;
    if (ns > 0) metrics::ProgramTime({name, kPartNames[i]}).AddNs(ns);
  }
  return static_cast<int64_t>(total_ns);
}

void ProgramUse::Show(const Name& name) {
  for (const std::string_view outcome : kOutcomeNames) metrics::ProgramRequests({name, outcome});
  metrics::ProgramWaits({name});
  for (const std::string_view part : kPartNames) metrics::ProgramTime({name, part});
}

void ProgramUse::Forget(const Name& name) {
  for (const std::string_view outcome : kOutcomeNames)
    MetricRegistry::Global().Forget("program_requests_total", {name, outcome});
  MetricRegistry::Global().Forget("program_waits_total", {name});
  for (const std::string_view part : kPartNames)
    MetricRegistry::Global().Forget("program_seconds_total", {name, part});
}

std::string ProgramName(const Digest& digest) { return digest.Hex().substr(0, kNameDigits); }

}  // namespace uopd::engine
