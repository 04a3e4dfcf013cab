// SPDX-License-Identifier: MIT
#include "server/engine/compile/core_compiler.h"

#include <algorithm>

#include "core/base/log.h"
#include "core/base/text.h"
#include "core/codegen/codegen.h"
#include "core/ir/io/wire.h"
#include "core/render/renderer.h"
#include "server/engine/base/code_key.h"

namespace uopd::engine {

std::string CoreCompiler::ScheduleEnvironment() const {
  return Cat("schedule=", schedule::kScheduleVersion);
}

std::string CoreCompiler::KernelEnvironment(const devices::Device& device,
                                            const CompileOptions& options) const {
  return Cat("record=", kKernelRecordVersion, " ", CodeEnvironment(device.target()), " ",
             options.KernelText());
}

absl::StatusOr<schedule::Schedule> CoreCompiler::MakeSchedule(
    ir::UOpContext& ctx, ir::UOp sink, const schedule::Options& options) const {
  return schedule::MakeSchedule(ctx, sink, options);
}

absl::StatusOr<KernelSource> CoreCompiler::LowerKernel(std::string_view graph,
                                                       const devices::Device& device,
                                                       const CompileOptions& options,
                                                       const std::vector<codegen::Opt>* opts,
                                                       PhaseTimings* timings,
                                                       Interrupt* maybe_interrupt) const {
  const Target& target = device.target();
  UOPD_ASSIGN(const render::Renderer* renderer, render::RendererFor(target.format));
  ir::UOpContext ctx;
  ctx.set_interrupt(maybe_interrupt);
  codegen::LoweredKernel lowered;
  {
    ScopedPhase phase(Phase::kCodegen, timings);
    auto sink = ir::Decode(ctx, graph, ir::Level::kKernel);
    UOPD_TRY(ctx.CheckInterrupt());
    // The client's graph has been verified. So a kernel graph that does not pass is a bug of the
    // daemon.
    if (!sink.ok()) {
      return UOPD_BUG(Cat("schedule made a bad kernel: ", StatusText(sink.status())));
    }
    codegen::Options codegen_options;
    codegen_options.noopt = options.noopt;
    codegen_options.fast_math = options.fast_math;
    codegen_options.opts = opts;
    UOPD_ASSIGN(lowered, codegen::Lower(ctx, *sink, target, codegen_options));
  }
  KernelSource out;
  {
    ScopedPhase phase(Phase::kRender, timings);
    UOPD_ASSIGN(out.text, renderer->render(ctx, lowered.linear, lowered.name, lowered.variables));
  }
  KernelRecord& record = out.record;
  record.name = lowered.name;
  record.buffers = std::move(lowered.buffers);
  record.variables = std::move(lowered.variables);
  record.launch = std::move(lowered.launch);
  record.flops = lowered.flops;
  record.bytes = lowered.bytes;
  record.estimate_ns = lowered.estimate_ns;
  record.polls = lowered.polls;
  return out;
}

}  // namespace uopd::engine
