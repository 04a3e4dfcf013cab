// SPDX-License-Identifier: MIT
// Compiler of one device: source text in, object bytes out. Owned by the device; thread-safe, and
// calls run in parallel.
#pragma once
#include <string>
#include <string_view>

#include "core/base/status.h"
#include "devices/api/program.h"

namespace uopd::devices {

class Compiler {
 public:
  virtual ~Compiler() = default;

  // `source` is text of Target::format, the result is of ProgramFormat::kObject. Deterministic: the
  // same text and the same Target::toolchain and features give the same bytes. A text that does not
  // compile is our bug: INTERNAL with the toolchain's diagnostic and the first lines of the text.
  virtual absl::StatusOr<std::string> Compile(std::string_view source) const = 0;
};

}  // namespace uopd::devices
