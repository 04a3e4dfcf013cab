// SPDX-License-Identifier: MIT
#include "devices/null/null_compiler.h"

namespace uopd::devices::null {

absl::StatusOr<std::string> NullCompiler::Compile(std::string_view source) const {
  if (source.empty()) return absl::InternalError("The kernel's source is empty");
  return std::string(source);
}

}  // namespace uopd::devices::null
