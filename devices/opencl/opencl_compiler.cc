// SPDX-License-Identifier: MIT
#include "devices/opencl/opencl_compiler.h"

#include "devices/opencl/opencl_program.h"

namespace uopd::devices::opencl {

absl::StatusOr<std::string> OpenClCompiler::Compile(std::string_view source) const {
  UOPD_TRY(context_->status());
  UOPD_ASSIGN(const OpenClProgram program, OpenClProgram::FromSource(context_, source));
  return program.Binary();
}

}  // namespace uopd::devices::opencl
