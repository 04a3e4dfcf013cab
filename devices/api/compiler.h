// SPDX-License-Identifier: MIT
// Compiler of one device: source text in, object bytes out. The device owns it. Thread-safe; calls
// run in parallel.
#pragma once
#include <string>
#include <string_view>

#include "core/base/status.h"
#include "devices/api/kernel_code.h"

namespace uopd::devices {

class Compiler {
 public:
  virtual ~Compiler() = default;

  // `source` is text of Target::format. The result has CodeFormat::kObject. Deterministic: the same
  // text, Target::toolchain and Target::features give the same bytes. A text that does not compile
  // is a bug of the daemon: the status is INTERNAL, with the toolchain's diagnostic and the first
  // lines of the text.
  virtual absl::StatusOr<std::string> Compile(std::string_view source) const = 0;
  // As Compile, in less time. The code may be slower, and computes the same bits.
  virtual absl::StatusOr<std::string> CompileDraft(std::string_view source) const {
    return Compile(source);
  }
  // Whether CompileDraft is quicker than Compile.
  virtual bool makes_drafts() const { return false; }
};

}  // namespace uopd::devices
