// SPDX-License-Identifier: MIT
// STREAM: a store writes around the caches.
#pragma once
#include <cstdint>

namespace uopd::codegen {

// The tag of a STORE that writes around the caches, from ApplyOpts on.
inline constexpr int64_t kStreamed = 1;

}  // namespace uopd::codegen
