// SPDX-License-Identifier: MIT
#include "server/engine/compile/program/program_flights.h"

#include <algorithm>
#include <span>
#include <utility>

#include "core/base/interrupt.h"
#include "core/base/telemetry/metrics.h"

namespace uopd::engine {
namespace {

// Counts a program that was made, and the callers who waited for it since these times.
void CountWaits(std::span<const int64_t> joined_ns) {
  metrics::ProgramLookups({"made"}).Increment();
  if (joined_ns.empty()) return;
  metrics::ProgramLookups({"waited"}).Increment(joined_ns.size());
  Histogram& wait = metrics::FlightWait({"program"});
  const int64_t now_ns = NowNs();
  for (const int64_t ns : joined_ns) wait.Observe(static_cast<double>(now_ns - ns) * 1e-9);
}

}  // namespace

void ProgramFlights::Join(const Digest& key, const std::shared_ptr<Preparation>& caller,
                          const Fly& fly) {
  RequestContext for_all;  // copies what is known now: the caller may leave at any time
  for_all.id = caller->request().id;
  for_all.caller = caller->request().caller;
  for_all.background = caller->request().background;
  std::shared_ptr<Flight> flight;
  bool first;
  {
    MutexLock lock(mu_);
    auto [it, fresh] = flights_.try_emplace(key);
    first = fresh;
    if (fresh) it->second = std::make_shared<Flight>();
    flight = it->second;
    flight->callers.push_back(caller);
    flight->joined_ns.push_back(NowNs());
    flight->waiting.fetch_add(1);
  }
  if (!caller->Wait([flight] { flight->waiting.fetch_sub(1); })) flight->waiting.fetch_sub(1);
  if (first) Run(key, *flight, for_all, fly);
}

void ProgramFlights::Run(const Digest& key, Flight& flight, const RequestContext& first,
                         const Fly& fly) {
  RequestContext for_all;
  Preparation::Answer answer;
  std::vector<std::shared_ptr<Preparation>> callers;
  std::vector<int64_t> joined_ns;
  for (;;) {
    for_all = first;
    flight.deserted = false;
    for_all.maybe_progress = std::make_shared<CompileProgress>();
    {
      MutexLock lock(mu_);
      flight.progress = for_all.maybe_progress;
    }
    for_all.cancelled = [&flight] {
      if (flight.waiting.load() > 0) return false;
      flight.deserted = true;
      return true;
    };
    answer = fly(for_all);
    MutexLock lock(mu_);
    // Callers came after the work had given up. Compile again for them.
    if (flight.deserted && IsAboutCaller(answer.status()) && flight.waiting.load() > 0) continue;
    callers = std::move(flight.callers);
    joined_ns = std::move(flight.joined_ns);
    flights_.erase(key);
    break;
  }
  CacheOutcome shared = for_all.cache;
  shared.schedule = CacheResult::kShared;
  CountWaits(std::span(joined_ns).subspan(1));
  for (size_t i = 0; i < callers.size(); ++i) {
    callers[i]->Finish(answer, i == 0 ? for_all.timings : PhaseTimings(),
                       i == 0 ? &for_all.cache : &shared);
  }
}

ProgramFlights::Progress ProgramFlights::ProgressOf(std::string_view flow) const {
  Progress out;
  MutexLock lock(mu_);
  for (const auto& [key, flight] : flights_) {
    const bool joined = std::ranges::any_of(
        flight->callers, [&](const auto& caller) { return caller->flow() == flow; });
    if (!joined) continue;
    ++out.programs;
    if (flight->progress == nullptr) continue;  // it is about to begin
    out.kernels += flight->progress->kernels.load();
    out.ready += flight->progress->ready.load();
  }
  return out;
}

size_t ProgramFlights::waiting(const Digest& key) const {
  MutexLock lock(mu_);
  const auto it = flights_.find(key);
  return it == flights_.end() ? 0 : static_cast<size_t>(it->second->waiting.load());
}

}  // namespace uopd::engine
