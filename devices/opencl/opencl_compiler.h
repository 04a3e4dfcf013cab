// SPDX-License-Identifier: MIT
// Compiler of an OpenCL device: text of OpenCL C to the driver's binary. It keeps the context and
// has no other state. Thread-safe; it uses no queue, so it compiles also while the device works.
//
// The bytes are the driver's own, and it decides whether they are the same every time. PoCL puts into
// a binary what its cache of kernels holds of the program: when the kernel was launched in between,
// that is more code, for this size of blocks. All these binaries compute the same bits.
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
