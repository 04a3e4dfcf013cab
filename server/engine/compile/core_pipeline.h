// SPDX-License-Identifier: MIT
// The Pipeline of the daemon: core/schedule, core/codegen and core/render. Stateless.
#pragma once
#include "server/engine/compile/pipeline.h"

namespace uopd::engine {

class CorePipeline final : public Pipeline {
 public:
  std::string ScheduleEnvironment() const override;
  std::string KernelEnvironment(const devices::Device& device,
                                const CompileOptions& options) const override;
  absl::StatusOr<schedule::Schedule> MakeSchedule(ir::UOpContext& ctx, ir::UOp sink,
                                                  const schedule::Options& options) const override;
  absl::StatusOr<KernelSource> LowerKernel(std::string_view graph, const devices::Device& device,
                                           const CompileOptions& options,
                                           const std::vector<codegen::Opt>* opts,
                                           PhaseTimings* timings,
                                           Interrupt* maybe_interrupt) const override;
};

}  // namespace uopd::engine
