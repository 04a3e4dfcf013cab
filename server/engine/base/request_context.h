// SPDX-License-Identifier: MIT
// What every stage knows of the request that it works for: its name, its limits in time, and where
// its time goes.
//
// Made by the server's edge, used by one thread at a time; Check, remaining parts of the compile
// that run on other threads included, only reads. `cancelled` may be called from any thread.
#pragma once
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "cache/store.h"
#include "core/base/status.h"
#include "core/base/trace.h"
#include "core/base/trace_parent.h"
#include "server/engine/base/caller.h"
#include "server/engine/base/cancellation.h"

namespace uopd::engine {

class ProgramHandle;

enum class CacheResult : uint8_t { kUnspecified, kMemory, kDisk, kMiss, kShared };

// Where a program came from.
struct CacheOutcome {
  CacheResult schedule = CacheResult::kUnspecified;
  uint32_t kernels_memory = 0, kernels_disk = 0, kernels_compiled = 0;
  uint32_t kernels_tuned = 0;  // of the program as it is now
};

struct RequestContext {
  using Clock = std::chrono::steady_clock;

  std::string id;     // in logs
  TraceParent trace;  // that the caller is in, in logs
  Caller caller;      // who asks
  Clock::time_point deadline = Clock::time_point::max();
  std::function<bool()> cancelled;  // null: never
  // The same for those who wait without a thread; null: `cancelled` is polled.
  std::shared_ptr<Cancellation> cancellation;
  // What has been prepared for this request; null: nothing yet.
  std::shared_ptr<ProgramHandle> prepared;
  int64_t start_ns = NowNs();
  PhaseTimings timings;
  CacheOutcome cache;

  // From now on `ends` says whether the request is cancelled.
  void EndWith(std::shared_ptr<Cancellation> ends);
  // OK while the caller still wants an answer; otherwise CANCELLED or DEADLINE_EXCEEDED.
  absl::Status Check() const;
  cache::WaitLimits wait_limits() const { return {deadline, cancelled}; }
};

}  // namespace uopd::engine
