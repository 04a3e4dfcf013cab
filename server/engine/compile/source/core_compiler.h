// SPDX-License-Identifier: MIT
// The GraphCompiler of the daemon. It uses core/schedule, core/codegen and core/render. Stateless.
#pragma once
#include "server/engine/compile/source/graph_compiler.h"

namespace uopd::engine {

class CoreCompiler final : public GraphCompiler {
 public:
  std::string ScheduleEnvironment() const override;
  std::string KernelEnvironment(const devices::Device& device,
                                const CompileOptions& options) const override;
  absl::StatusOr<schedule::Schedule> MakeSchedule(ir::UOpContext& ctx, ir::UOp sink,
                                                  const schedule::Options& options) const override;
  absl::StatusOr<KernelSource> LowerKernel(std::string_view graph, const devices::Device& device,
                                           const CompileOptions& options,
                                           const std::vector<codegen::Opt>* opts, bool draft,
                                           PhaseTimings* timings,
                                           Interrupt* maybe_interrupt) const override;
  absl::StatusOr<KernelText> ExplainKernel(std::string_view graph, const devices::Device& device,
                                           const CompileOptions& options,
                                           const std::vector<codegen::Opt>* opts,
                                           Interrupt* maybe_interrupt) const override;
};

}  // namespace uopd::engine
