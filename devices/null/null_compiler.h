// SPDX-License-Identifier: MIT
// Compiler of NULL: the object is the source, unchanged. Stateless.
#pragma once
#include "devices/api/compiler.h"

namespace uopd::devices::null {

class NullCompiler final : public Compiler {
 public:
  absl::StatusOr<std::string> Compile(std::string_view source) const override;
};

}  // namespace uopd::devices::null
