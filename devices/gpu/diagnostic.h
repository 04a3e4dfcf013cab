// SPDX-License-Identifier: MIT
// The status of a kernel text that a toolchain refuses. A pure function.
#pragma once
#include <string>
#include <string_view>

#include "core/base/status.h"

namespace uopd::devices::gpu {

// INTERNAL, with the toolchain's words and the first lines of the text.
absl::Status DoesNotCompile(std::string_view toolchain, std::string_view log,
                            std::string_view source);

}  // namespace uopd::devices::gpu
