// SPDX-License-Identifier: MIT
// Compiler of an OpenCL device: text of OpenCL C to the driver's binary. It keeps the context and
// has no other state. Thread-safe; it uses no queue, so it compiles also while the device works.
//
// Bytes are the same for the same text as long as the driver answers from its own cache of kernels.
// PoCL without its cache (POCL_KERNEL_CACHE=0), or with another one, names other temporary files in
// its binaries; the code is the same.
#pragma once
#include <memory>
#include <utility>

#include "devices/api/compiler.h"
#include "devices/opencl/opencl_context.h"

namespace uopd::devices::opencl {

class OpenClCompiler final : public Compiler {
 public:
  explicit OpenClCompiler(std::shared_ptr<OpenClContext> context) : context_(std::move(context)) {}

  absl::StatusOr<std::string> Compile(std::string_view source) const override;

 private:
  const std::shared_ptr<OpenClContext> context_;
};

}  // namespace uopd::devices::opencl
