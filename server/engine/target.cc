// SPDX-License-Identifier: MIT
#include "server/engine/target.h"

#include <algorithm>
#include <string_view>

#include "core/base/text.h"
#include "core/render/llvm_ir.h"

namespace uopd::engine {
namespace {

bool HasFeature(const devices::DeviceInfo& info, std::string_view feature) {
  return info.features.find(feature) != std::string::npos;
}

}  // namespace

codegen::Target TargetOf(const devices::DeviceInfo& info) {
  codegen::Target target;
  target.kind = info.kind;
  if (info.vector_bytes > 0) target.vector_bytes = info.vector_bytes;
  target.vector_registers = HasFeature(info, "avx512f") ? 32 : 16;
  target.threads = std::max(info.hardware_threads, 1);
  target.has_fma = HasFeature(info, "fma");
  return target;
}

schedule::KernelLimits KernelLimitsOf(const devices::DeviceInfo& info) {
  schedule::KernelLimits limits;
  limits.threads = std::max(info.hardware_threads, 1);
  // More than the scheduler's own limit would make no better kernels.
  const int most = info.limits.max_kernel_buffers;
  if (most > 0) limits.max_buffers = std::min(limits.max_buffers, most);
  return limits;
}

std::string CodeEnvironment(const devices::DeviceInfo& info) {
  return Cat("codegen=", codegen::kCodegenVersion, " llvm_ir=", render::kLlvmIrVersion,
             " target=", TargetOf(info).Key(), " arch=", info.arch, " features=", info.features,
             " toolchain=", info.toolchain);
}

}  // namespace uopd::engine
