// SPDX-License-Identifier: MIT
// What the scheduler and the code generator make of a client's graph for a chip. No device is
// needed.
#pragma once
#include <functional>
#include <string_view>

#include "core/base/status.h"
#include "core/base/target/target.h"
#include "core/ir/context.h"
#include "core/ir/io/wire.h"
#include "core/ir/verify/spec.h"
#include "core/schedule/schedule.h"

namespace uopd::test {

// What the scheduler may do on a device of this target.
inline schedule::Options ScheduleOptionsFor(const Target& target) {
  schedule::Options out;
  out.limits = schedule::KernelLimits::Of(target);
  return out;
}

// The schedule of an exported graph (client::Exported::graph). `change`: what happens to the graph
// first; null: nothing.
using ChangeGraph = std::function<absl::StatusOr<ir::UOp>(ir::UOpContext&, ir::UOp sink)>;
inline absl::StatusOr<schedule::Schedule> ScheduleOf(std::string_view graph,
                                                     const schedule::Options& options,
                                                     const ChangeGraph& change = nullptr) {
  ir::UOpContext ctx;
  UOPD_ASSIGN(ir::UOp sink, ir::Decode(ctx, graph, ir::Level::kTensor));
  if (change) {
    UOPD_ASSIGN(sink, change(ctx, sink));
  }
  return schedule::MakeSchedule(ctx, sink, options);
}

// Calls `use` with each kernel's graph, in a context of its own. Ends at the first error.
inline absl::Status ForEachKernel(const schedule::Schedule& schedule,
                                  const std::function<absl::Status(ir::UOpContext&, ir::UOp kernel,
                                                                   const schedule::Item&)>& use) {
  for (const schedule::Item& item : schedule.items) {
    if (item.kind != schedule::Item::kKernel) continue;
    ir::UOpContext ctx;
    UOPD_ASSIGN(const ir::UOp kernel, ir::Decode(ctx, item.graph, ir::Level::kKernel));
    UOPD_TRY(use(ctx, kernel, item));
  }
  return absl::OkStatus();
}

}  // namespace uopd::test
