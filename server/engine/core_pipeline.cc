// SPDX-License-Identifier: MIT
#include "server/engine/core_pipeline.h"

#include <algorithm>

#include "core/base/text.h"
#include "core/codegen/codegen.h"
#include "core/ir/wire.h"
#include "core/render/c_style.h"
#include "core/render/llvm_ir.h"

namespace uopd::engine {
namespace {

bool HasFeature(const devices::DeviceInfo& info, std::string_view feature) {
  return info.features.find(feature) != std::string::npos;
}

codegen::Target TargetOf(const devices::DeviceInfo& info) {
  codegen::Target target;
  target.kind = info.kind;
  if (info.vector_bytes > 0) target.vector_bytes = info.vector_bytes;
  target.vector_registers = HasFeature(info, "avx512f") ? 32 : 16;
  target.threads = std::max(info.hardware_threads, 1);
  target.has_fma = HasFeature(info, "fma");
  return target;
}

// The renderer for what the device's compiler takes.
absl::StatusOr<std::string> Render(ir::UOpContext& ctx, const codegen::LoweredKernel& kernel,
                                   const devices::Device& device) {
  switch (device.compiler().source_format()) {
    case devices::ProgramFormat::kLlvmIr:
      return render::RenderLlvmIr(ctx, kernel.program, kernel.name, kernel.variables);
    case devices::ProgramFormat::kSource:
      return render::RenderC(ctx, kernel.program, kernel.name, kernel.variables);
    case devices::ProgramFormat::kObject:
    case devices::ProgramFormat::kPtx:
      break;
  }
  return absl::UnimplementedError(
      Cat("there is no renderer for the compiler of ", device.info().name));
}

}  // namespace

std::string CompileOptions::Text() const {
  return Cat("noopt=", noopt ? 1 : 0, " fast_math=", fast_math ? 1 : 0);
}

std::string CorePipeline::ScheduleEnvironment() const {
  return Cat("schedule=", schedule::kScheduleVersion);
}

std::string CorePipeline::KernelEnvironment(const devices::Device& device,
                                            const CompileOptions& options) const {
  const devices::DeviceInfo& info = device.info();
  return Cat("record=", kKernelRecordVersion, " codegen=", codegen::kCodegenVersion,
             " llvm_ir=", render::kLlvmIrVersion, " target=", TargetOf(info).Key(),
             " arch=", info.arch, " features=", info.features, " toolchain=", info.toolchain, " ",
             options.Text());
}

absl::StatusOr<schedule::Schedule> CorePipeline::MakeSchedule(
    ir::UOpContext& ctx, ir::UOp sink, const std::string& default_device) const {
  schedule::Options options;
  options.default_device = default_device;
  return schedule::MakeSchedule(ctx, sink, options);
}

absl::StatusOr<KernelRecord> CorePipeline::BuildKernel(std::string_view graph,
                                                       const devices::Device& device,
                                                       const CompileOptions& options,
                                                       PhaseTimings* timings) const {
  ir::UOpContext ctx;
  codegen::LoweredKernel lowered;
  {
    ScopedPhase phase(Phase::kCodegen, timings);
    auto sink = ir::Decode(ctx, graph, ir::Stage::kKernel);
    // The client's graph has been verified: a kernel graph that does not pass is our bug.
    if (!sink.ok()) {
      return absl::InternalError(Cat("schedule made a bad kernel: ", StatusText(sink.status())));
    }
    codegen::Options codegen_options;
    codegen_options.noopt = options.noopt;
    codegen_options.fast_math = options.fast_math;
    UOPD_ASSIGN(lowered,
                codegen::Lower(ctx, *sink, TargetOf(device.info()), codegen_options));
  }
  KernelRecord out;
  std::string source;
  {
    ScopedPhase phase(Phase::kRender, timings);
    UOPD_ASSIGN(source, Render(ctx, lowered, device));
  }
  {
    ScopedPhase phase(Phase::kCompile, timings);
    auto object = device.compiler().Compile(source);
    UOPD_TRY(WithFrame(object.status(), Cat("compiling kernel ", lowered.name)));
    out.object = *std::move(object);
  }
  out.name = lowered.name;
  out.buffers = std::move(lowered.buffers);
  out.variables = std::move(lowered.variables);
  std::copy_n(lowered.grid, 3, out.shape.grid);
  std::copy_n(lowered.block, 3, out.shape.block);
  out.shape.shared_bytes = lowered.shared_bytes;
  out.flops = lowered.flops;
  out.bytes = lowered.bytes;
  return out;
}

}  // namespace uopd::engine
