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
#include "devices/cuda/cuda_context.h"

namespace uopd::devices::cuda {

class PtxCompiler final : public Compiler {
 public:
  explicit PtxCompiler(std::shared_ptr<CudaContext> context) : context_(std::move(context)) {}

  absl::StatusOr<std::string> Compile(std::string_view source) const override;
  // Target::toolchain of a device of this architecture.
  static std::string Toolchain(const CudaDriver& driver, const std::string& arch);

 private:
  const std::shared_ptr<CudaContext> context_;
};

}  // namespace uopd::devices::cuda
