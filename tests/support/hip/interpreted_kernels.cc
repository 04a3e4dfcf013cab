// SPDX-License-Identifier: MIT
#include "tests/support/hip/interpreted_kernels.h"

#include <algorithm>
#include <utility>

#include "core/base/text.h"
#include "core/interp/interpreter.h"
#include "core/ir/graph.h"
#include "core/ir/io/linear_text.h"
#include "devices/interp/interp_device.h"

namespace uopd::tests {

InterpretedKernels::InterpretedKernels(FakeCuda& fake)
    : interpreter_(TargetOfDevices().matrix_instructions) {
  fake.SetHostKernels([this](const FakeCuda::HostLaunch& launch) { return Run(launch); });
}

Target InterpretedKernels::TargetOfDevices() {
  return devices::interp::InterpTarget(devices::interp::AmdShape());
}

absl::StatusOr<std::string> InterpretedKernels::Compile(std::string_view source) const {
  ir::UOpContext ctx;
  UOPD_ASSIGN(const ir::LinearText text, ir::ParseLinear(ctx, source));
  auto kernel = std::make_shared<Kernel>();
  UOPD_ASSIGN(kernel->code, interpreter_.Parse(source));
  for (ir::UOp u : ir::Toposort(ctx, text.linear)) {
    if (u.Is(ir::Op::PARAM))
      kernel->buffers = std::max(kernel->buffers, static_cast<size_t>(u.slot()) + 1);
  }
  // The arguments of a launch: the buffers, the variables and the stop word.
  const size_t arguments = kernel->buffers + text.variables.size() + 1;
  MutexLock lock(mu_);
  const std::string id = Cat(kernels_.size());
  kernels_[id] = std::move(kernel);
  return FakeCuda::Cubin(Cat(text.name, " host:", id, " ", arguments, "\n"));
}

std::vector<std::string> InterpretedKernels::Failures() const {
  MutexLock lock(mu_);
  return failures_;
}

bool InterpretedKernels::Run(const FakeCuda::HostLaunch& launch) {
  std::shared_ptr<const Kernel> kernel;
  {
    MutexLock lock(mu_);
    kernel = kernels_.at(launch.id);
  }
  interp::LaunchArguments arguments;
  std::copy_n(launch.grid, 3, arguments.grid);
  std::copy_n(launch.block, 3, arguments.block);
  arguments.warp_lanes = TargetOfDevices().warp_lanes;
  arguments.buffers = std::span(launch.memory).first(kernel->buffers);
  std::vector<int64_t> variables;
  for (size_t i = 0; i < kernel->code.program.variables(); ++i)
    variables.push_back(static_cast<int64_t>(launch.arguments.at(kernel->buffers + i)));
  arguments.variables = variables;
  const absl::Status status = interp::Run(kernel->code.program, arguments);
  if (status.ok()) return true;
  MutexLock lock(mu_);
  failures_.push_back(Cat(kernel->code.name, ": ", StatusText(status)));
  return false;
}

}  // namespace uopd::tests
