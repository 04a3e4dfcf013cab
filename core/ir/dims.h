// SPDX-License-Identifier: MIT
// Concrete dimensions of a tensor. This header needs nothing of the IR: clients include it.
#pragma once
#include <cstdint>
#include <span>

#include "absl/container/inlined_vector.h"

namespace uopd::ir {

using Dims = absl::InlinedVector<int64_t, 6>;

inline constexpr int kMaxRank = 32;
inline constexpr int64_t kMaxElements = int64_t{1} << 48;

int64_t Product(std::span<const int64_t> dims);

}  // namespace uopd::ir
