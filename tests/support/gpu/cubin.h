// SPDX-License-Identifier: MIT
// What a cubin, the object code of NVIDIA's compilers, says about its kernels.
#pragma once
#include <cstdint>
#include <optional>
#include <string_view>

namespace uopd::tests {

// The most bytes of local memory that a thread of any of its functions needs: what does not fit in
// registers. nullopt: `cubin` is no cubin, or says nothing.
std::optional<int64_t> LocalBytes(std::string_view cubin);

}  // namespace uopd::tests
