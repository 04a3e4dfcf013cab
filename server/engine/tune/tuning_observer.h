// SPDX-License-Identifier: MIT
// Whoever follows the tuning of a task, and limits it: the operation that `uopctl tune` starts
// (operate/tune_operation.h).
//
// TuningService calls it on its threads, also on several at the same time: kernels of different
// processors are tuned in parallel, and the result of another daemon may arrive during a search.
// That search then ends, and what it still reports after Ended is to be ignored. No call may block.
#pragma once
#include <cstdint>
#include <string_view>

#include "server/engine/tune/kernel_tuner.h"
#include "server/engine/tune/tuning_record.h"

namespace uopd::engine {

class TuningObserver {
 public:
  virtual ~TuningObserver() = default;

  // Polled. Once it has returned true, searches end with CANCELLED and no other begins.
  virtual bool cancelled() const = 0;
  // A search begins. Returns what it may use. An error ends the kernel with CANCELLED instead.
  virtual absl::StatusOr<SearchLimits> Begin(size_t kernel) = 0;
  // One candidate was tried.
  virtual void Tried(size_t kernel, const search::Trial& trial) = 0;
  // What the search has not measured until now: candidates of which the models expected too little,
  // and candidates whose program another one had. The first number may fall: what was left out may
  // be measured later.
  virtual void LeftOut(size_t kernel, uint64_t pruned, uint64_t duplicates) = 0;
  // What keeps the kernel from being searched, in words that people understand behind "waiting
  // for". Empty: nothing but its turn among the kernels of the task. May be called again and again,
  // also with a lock of the service held.
  virtual void WaitsFor(size_t kernel, std::string_view what) = 0;
  // The last call about the kernel. `found`: the result is not of this task's search. Not called
  // for kernels that nobody looks at any more, because the observer is cancelled or the service
  // stops.
  virtual void Ended(size_t kernel, const absl::StatusOr<TuningRecord>& result, bool found) = 0;
};

}  // namespace uopd::engine
