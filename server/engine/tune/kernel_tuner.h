// SPDX-License-Identifier: MIT
// Whoever finds the best opts of a kernel: TuningService asks, WorkerTuner answers.
#pragma once
#include <functional>
#include <string>
#include <string_view>

#include "devices/api/device.h"
#include "server/engine/base/compile_options.h"
#include "server/engine/tune/tuning_record.h"

namespace uopd::engine {

class KernelTuner {
 public:
  virtual ~KernelTuner() = default;

  // All that decides the winner besides the kernel: the environment key of what was found.
  virtual std::string Environment(const devices::Device& device,
                                  const CompileOptions& options) const = 0;
  // Blocks for seconds to minutes. `graph` is an Item::graph; `cancelled` may be called on any
  // thread, and may block for as long as the store takes. CANCELLED soon after it said true.
  virtual absl::StatusOr<TuningRecord> Tune(std::string_view graph, const devices::Device& device,
                                            const CompileOptions& options,
                                            const std::function<bool()>& cancelled) = 0;
  // There is nothing to do for now: frees what idle workers hold.
  virtual void Rest() {}
};

}  // namespace uopd::engine
