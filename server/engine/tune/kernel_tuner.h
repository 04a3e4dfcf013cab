// SPDX-License-Identifier: MIT
// Finds the best opts of a kernel. TuningService calls it, and WorkerTuner implements it.
#pragma once
#include <chrono>
#include <cstdint>
#include <functional>
#include <limits>
#include <string>
#include <string_view>

#include "core/base/work_limits.h"
#include "core/search/beam.h"
#include "devices/api/device.h"
#include "server/engine/base/compile_options.h"
#include "server/engine/tune/tuning_record.h"

namespace uopd::engine {

// What one search may use, if that is less than the tuner's own limits. The best found until then
// wins. They are no part of the key: the result is the kernel's winner, whoever asks next.
struct SearchLimits {
  std::chrono::milliseconds time = std::chrono::milliseconds::max();
  int candidates = std::numeric_limits<int>::max();
};

// How somebody else takes part in a search.
struct SearchControl {
  // `cancelled` may block for as long as the store takes. Once it has returned true, Tune soon
  // returns CANCELLED. After the deadline the best that was found wins, as with SearchLimits::time.
  WorkLimits work;
  std::function<void(const search::Trial&)>
      progress;  // called after each candidate; null: nobody asks
  // Called as the search goes on, and when it ends: candidates that the models left out until now,
  // and candidates whose program another one had. Null: nobody asks.
  std::function<void(uint64_t pruned, uint64_t duplicates)> left_out;
  SearchLimits limits;
};

class KernelTuner {
 public:
  virtual ~KernelTuner() = default;

  // The environment key of what was found: all that decides the winner besides the kernel.
  virtual std::string Environment(const devices::Device& device,
                                  const CompileOptions& options) const = 0;
  // Blocks for seconds to minutes. For the devices of one processor (DeviceInfo) only one call of
  // Tune or Prove runs at a time; calls for other processors run in parallel. `graph` is an
  // Item::graph. DEADLINE_EXCEEDED: the time was over before anything was measured.
  virtual absl::StatusOr<TuningRecord> Tune(std::string_view graph, const devices::Device& device,
                                            const CompileOptions& options,
                                            const SearchControl& control) = 0;
  // Runs the kernel with `opts`, which somebody else found, against the kernel without opts, in the
  // worker that measures, and measures it here. INTERNAL: it computes another result, or does not
  // run, or ends or hangs its worker; INVALID_ARGUMENT: the opts do not apply; UNAVAILABLE: the
  // kernel without opts does not run. Else as Tune.
  virtual absl::StatusOr<TuningRecord> Prove(std::string_view graph, const devices::Device& device,
                                             const CompileOptions& options, const Opts& opts,
                                             const WorkLimits& limits) = 0;
  // Why no search can begin now; empty: one can. Does not wait.
  virtual std::string Unready() const { return {}; }
  // Called when there is nothing to tune for the device now. Frees what idle workers hold.
  virtual void Rest(const devices::Device& device) {}
};

// Whether Prove found out that a winner is wrong. Other errors say nothing about it: a deadline, no
// memory, no worker.
inline bool IsWrongWinner(const absl::Status& proof) {
  return absl::IsInternal(proof) || absl::IsInvalidArgument(proof);
}

}  // namespace uopd::engine
