// SPDX-License-Identifier: MIT
// Compiler of NULL: the object is the source, unchanged. Stateless.
#pragma once
#include "devices/api/compiler.h"

namespace uopd::devices::null {

class NullCompiler final : public Compiler {
 public:
  absl::StatusOr<std::string> Compile(std::string_view source) const override;
  bool makes_drafts() const override { return true; }  // for tests of what surrounds drafts
};

}  // namespace uopd::devices::null
