// SPDX-License-Identifier: MIT
// What every step knows about the request that it works for: its id, its time limits, and a record
// of where its time goes.
//
// The server's edge makes it. One thread uses it at a time. Parts of the compile that run on other
// threads only read it, and so does Check. `cancelled` may be called from any thread.
#pragma once
#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

#include "core/base/status.h"
#include "core/base/telemetry/trace.h"
#include "core/base/telemetry/trace_parent.h"
#include "core/base/work_limits.h"
#include "server/engine/base/cache_outcome.h"
#include "server/engine/base/caller.h"
#include "server/engine/base/cancellation.h"
#include "server/engine/base/run_report.h"

namespace uopd::engine {

class ProgramHandle;

// How far a compile is. Any thread reads it.
struct CompileProgress {
  std::atomic<uint32_t> kernels{0};  // 0: not known yet
  std::atomic<uint32_t> ready{0};
};

// `deadline` and `cancelled` are those of the caller.
struct RequestContext : WorkLimits {
  std::string id;     // for logs
  TraceParent trace;  // of the caller, for logs and exemplars
  Caller caller;      // who asks
  // The same for those who wait without a thread. Null: they poll `cancelled`.
  std::shared_ptr<Cancellation> cancellation;
  std::shared_ptr<CompileProgress> maybe_progress;  // null: nobody asks
  bool background = false;                          // the daemon's own: no client waits for it
  // The program that has been prepared for this request. Null: none yet.
  std::shared_ptr<ProgramHandle> prepared;
  int64_t start_ns = NowNs();
  PhaseTimings timings;
  CacheOutcome cache;
  // What the request wants to know about its run. Null: nothing.
  std::shared_ptr<RunReport> maybe_report;

  // From now on `ends` decides whether the request is cancelled.
  void EndWith(std::shared_ptr<Cancellation> ends);
  // Names the request in histograms. Refers to this object.
  ExemplarId exemplar() const { return {trace.trace_id, id}; }
  const WorkLimits& limits() const { return *this; }
};

}  // namespace uopd::engine
