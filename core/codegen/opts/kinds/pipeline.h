// SPDX-License-Identifier: MIT
// PIPELINE: what is packed is copied for the next steps of a sum while the threads compute one
// (gpu/passes/pipeline/pipeline.h).
#pragma once
#include <array>
#include <cstdint>

namespace uopd::codegen {

inline constexpr int64_t kMostPipelineParts = 8;  // of the shared arrays
// The numbers of warps that a block may have for copying alone, besides those that compute: none,
// one, or a whole group of four, which gives most of its registers to the others.
inline constexpr std::array<int64_t, 3> kCopyingWarps = {0, 1, 4};

}  // namespace uopd::codegen
