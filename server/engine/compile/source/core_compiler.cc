// SPDX-License-Identifier: MIT
#include "server/engine/compile/source/core_compiler.h"

#include <algorithm>

#include "core/base/telemetry/log.h"
#include "core/base/text.h"
#include "core/codegen/codegen.h"
#include "core/ir/io/print.h"
#include "core/ir/io/wire.h"
#include "core/render/renderer.h"
#include "server/engine/base/code_key.h"

namespace uopd::engine {

std::string CoreCompiler::ScheduleEnvironment() const {
  return Cat("schedule=", schedule::kScheduleVersion);
}

std::string CoreCompiler::ChoiceEnvironment(const devices::Device& device,
                                            const CompileOptions& options) const {
  // The facts as a digest: there are many choices, and each is small. Those that people choose
  // entries by stand before it.
  const Target& target = device.target();
  return Cat("kind=", target.kind, " arch=", target.arch, " threads=", target.threads,
             " facts=", FactsOf(device).Hex(), " ", options.KernelText());
}

Digest CoreCompiler::FactsOf(const devices::Device& device) const {
  const std::weak_ptr<const devices::Device> wanted = device.weak_from_this();
  // The owners are compared: a new device may lie at the address of one that was closed.
  const auto is_wanted = [&](const auto& known) {
    return !known.first.owner_before(wanted) && !wanted.owner_before(known.first);
  };
  MutexLock lock(mu_);
  const auto found = std::ranges::find_if(facts_, is_wanted);
  if (found != facts_.end() && !wanted.expired()) return found->second;
  const Digest facts = HashBytes(CodeEnvironment(device.target()));
  std::erase_if(facts_, [](const auto& known) { return known.first.expired(); });
  if (!wanted.expired()) facts_.emplace_back(wanted, facts);
  return facts;
}

absl::StatusOr<schedule::Schedule> CoreCompiler::MakeSchedule(
    ir::UOpContext& ctx, ir::UOp sink, const schedule::Options& options) const {
  return schedule::MakeSchedule(ctx, sink, options);
}

namespace {

// What LowerKernel and ExplainKernel take alike.
struct KernelJob {
  std::string_view graph;
  const Target& target;
  const CompileOptions& options;
  const std::vector<codegen::Opt>* opts = nullptr;
  Interrupt* maybe_interrupt = nullptr;
  bool draft = false;
};

// Makes the source of a kernel, and its other texts if `maybe_text` is not null.
absl::StatusOr<KernelSource> MakeKernel(const KernelJob& job, PhaseTimings* timings,
                                        KernelText* maybe_text) {
  const Target& target = job.target;
  UOPD_ASSIGN(const render::Renderer* renderer, render::RendererFor(target.format));
  ir::UOpContext ctx;
  ctx.set_interrupt(job.maybe_interrupt);
  codegen::LoweredKernel lowered;
  {
    ScopedPhase phase(Phase::kCodegen, timings);
    auto sink = ir::Decode(ctx, job.graph, ir::Level::kKernel);
    UOPD_TRY(ctx.CheckInterrupt());
    // The client's graph has been verified. So a kernel graph that does not pass is a bug of the
    // daemon.
    if (!sink.ok()) {
      return UOPD_BUG(Cat("schedule made a bad kernel: ", StatusText(sink.status())));
    }
    if (maybe_text != nullptr) maybe_text->graph = ir::Print(ctx, *sink);
    codegen::Options codegen_options;
    codegen_options.noopt = job.options.noopt;
    codegen_options.fast_math = job.options.fast_math;
    codegen_options.opts = job.opts;
    codegen_options.draft = job.draft;
    UOPD_ASSIGN(lowered, codegen::Lower(ctx, *sink, target, codegen_options));
  }
  KernelSource out;
  {
    ScopedPhase phase(Phase::kRender, timings);
    UOPD_ASSIGN(out.text, renderer->render({ctx, lowered.linear, lowered.name, lowered.variables,
                                            target, lowered.buffers.size()}));
  }
  if (maybe_text != nullptr) maybe_text->lines = ir::Print(ctx, lowered.linear);
  static_cast<codegen::KernelInfo&>(out.record) = std::move(lowered);
  return out;
}

}  // namespace

absl::StatusOr<KernelSource> CoreCompiler::LowerKernel(std::string_view graph,
                                                       const devices::Device& device,
                                                       const CompileOptions& options,
                                                       const std::vector<codegen::Opt>* opts,
                                                       bool draft, PhaseTimings* timings,
                                                       Interrupt* maybe_interrupt) const {
  return MakeKernel({graph, device.target(), options, opts, maybe_interrupt, draft}, timings,
                    nullptr);
}

absl::StatusOr<KernelText> CoreCompiler::ExplainKernel(std::string_view graph,
                                                       const devices::Device& device,
                                                       const CompileOptions& options,
                                                       const std::vector<codegen::Opt>* opts,
                                                       Interrupt* maybe_interrupt) const {
  KernelText out;
  PhaseTimings timings;  // belongs to no request
  UOPD_ASSIGN(KernelSource made,
              MakeKernel({graph, device.target(), options, opts, maybe_interrupt}, &timings, &out));
  out.source = std::move(made.text);
  return out;
}

}  // namespace uopd::engine
