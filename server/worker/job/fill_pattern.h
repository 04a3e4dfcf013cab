// SPDX-License-Identifier: MIT
// Deterministic contents for the buffers of measured kernels.
//
// The same dtype, seed and size give the same bytes in every process. The values are harmless.
// Floats are in (-1, 1), without zeros, denormals, infinities or NaNs, which would change times and
// hide differences. Integers are in [1, 16], so that nothing is divided by zero. Bools take both
// values.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>

#include "core/ir/dtype.h"

namespace uopd::worker {

// Bytes after the last whole element become 0. REQUIRES: values of the dtype can be stored.
void FillPattern(ir::Dtype dtype, uint64_t seed, std::span<std::byte> out);

}  // namespace uopd::worker
