// SPDX-License-Identifier: MIT
#include "server/engine/compile/program/program_flights.h"

#include <algorithm>
#include <atomic>
#include <optional>
#include <vector>

#include "core/base/telemetry/metrics.h"

namespace uopd::engine {
namespace {

// Counts a program that was made, and those of the callers who waited for it: all but the first.
template <class Caller>
void CountWaits(const std::vector<Caller>& callers) {
  metrics::ProgramLookups({"made"}).Increment();
  if (callers.size() < 2) return;
  metrics::ProgramLookups({"waited"}).Increment(callers.size() - 1);
  Histogram& wait = metrics::FlightWait({"program"});
  const int64_t now_ns = NowNs();
  for (size_t i = 1; i < callers.size(); ++i)
    wait.Observe(static_cast<double>(now_ns - callers[i].joined_ns) * 1e-9);
}

}  // namespace

void ProgramFlights::Join(const Digest& key, const std::shared_ptr<Preparation>& caller,
                          const Fly& fly) {
  RequestContext for_all;  // copies what is known now: the caller may leave at any time
  for_all.id = caller->request().id;
  for_all.caller = caller->request().caller;
  for_all.background = caller->request().background;
  const auto [flight, first] = flights_.Join(key, {caller, NowNs()});
  if (!caller->Wait([flight = flight] { Table::Leave(*flight); })) Table::Leave(*flight);
  if (first) Run(key, flight, for_all, fly);
}

void ProgramFlights::Run(const Digest& key, const std::shared_ptr<Table::Flight>& flight,
                         const RequestContext& first, const Fly& fly) {
  CompileProgress& progress = flight->shared();
  RequestContext for_all;
  Preparation::Answer answer;
  std::optional<std::vector<Caller>> callers;
  while (!callers) {
    progress.kernels = progress.ready = 0;
    std::atomic<bool> deserted{false};  // the work has noticed that nobody waits
    for_all = first;
    for_all.maybe_progress = std::shared_ptr<CompileProgress>(flight, &progress);
    for_all.cancelled = [&flight, &deserted] {
      if (flight->wanted() > 0) return false;
      deserted = true;
      return true;
    };
    answer = fly(for_all);
    // If callers came after the work had given up, it begins again for them.
    callers = flights_.Land(key, *flight, deserted && IsAboutCaller(answer.status()));
  }
  for_all.cancelled = nullptr;  // it refers to the try
  CacheOutcome shared = for_all.cache;
  shared.schedule = CacheResult::kShared;
  CountWaits(*callers);
  bool is_first = true;
  for (const Caller& caller : *callers) {
    caller.preparation->Finish(answer, is_first ? for_all.timings : PhaseTimings(),
                               is_first ? &for_all.cache : &shared);
    is_first = false;
  }
}

ProgramFlights::Progress ProgramFlights::ProgressOf(std::string_view flow) const {
  Progress out;
  flights_.ForEach([&](const std::vector<Caller>& callers, const CompileProgress& progress) {
    const bool joined = std::ranges::any_of(
        callers, [&](const Caller& caller) { return caller.preparation->flow() == flow; });
    if (!joined) return;
    ++out.programs;
    out.kernels += progress.kernels.load();
    out.ready += progress.ready.load();
  });
  return out;
}

}  // namespace uopd::engine
