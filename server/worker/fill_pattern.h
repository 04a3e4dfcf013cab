// SPDX-License-Identifier: MIT
// Deterministic contents for the buffers of measured kernels.
//
// Same dtype, seed and size, same bytes, in every process. Values are harmless: floats in (-1, 1)
// without zeros, denormals, infinities or NaNs, which would change times and hide differences;
// integers in [1, 16], so that nothing is divided by zero; bools both ways.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>

#include "core/ir/dtype.h"

namespace uopd::worker {

// Bytes beyond the last whole element become 0. REQUIRES: dtype is a stored one.
void FillPattern(ir::Dtype dtype, uint64_t seed, std::span<std::byte> out);

}  // namespace uopd::worker
