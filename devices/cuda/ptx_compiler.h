// SPDX-License-Identifier: MIT
// Compiler of PTX through the driver's own compiler: a cubin for the device of a context. Needs the
// device, so it works in processes that have opened it.
//
// Immutable and thread-safe. Errors: INTERNAL for a text that does not compile; UNAVAILABLE if the
// device is lost, or if the driver has no compiler.
#pragma once
#include <memory>
#include <string>

#include "devices/api/compiler.h"
#include "devices/cuda/cuda_driver.h"
#include "devices/gpu/gpu_context.h"

namespace uopd::devices::cuda {

class PtxCompiler final : public Compiler {
 public:
  // The context is one of the driver.
  PtxCompiler(const CudaDriver& driver, std::shared_ptr<gpu::GpuContext> context)
      : driver_(driver), context_(std::move(context)) {}

  absl::StatusOr<std::string> Compile(std::string_view source) const override;
  // Target::toolchain of a device of this architecture.
  static std::string Toolchain(const CudaDriver& driver, const std::string& arch);

 private:
  const CudaDriver& driver_;  // lives as long as its contexts
  const std::shared_ptr<gpu::GpuContext> context_;
};

}  // namespace uopd::devices::cuda
