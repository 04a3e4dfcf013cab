// SPDX-License-Identifier: MIT
// The GraphCompiler of the daemon. It uses core/schedule, core/codegen and core/render. It
// remembers nothing but the digests of its devices' facts.
#pragma once
#include <memory>
#include <utility>
#include <vector>

#include "core/base/mutex.h"
#include "server/engine/compile/source/graph_compiler.h"

namespace uopd::engine {

class CoreCompiler final : public GraphCompiler {
 public:
  std::string ScheduleEnvironment() const override;
  std::string ChoiceEnvironment(const devices::Device& device,
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

 private:
  // Of CodeEnvironment. Every lookup of a kernel needs it.
  Digest FactsOf(const devices::Device& device) const UOPD_EXCLUDES(mu_);

  mutable Mutex mu_;
  mutable std::vector<std::pair<std::weak_ptr<const devices::Device>, Digest>> facts_
      UOPD_GUARDED_BY(mu_);  // a few
};

}  // namespace uopd::engine
