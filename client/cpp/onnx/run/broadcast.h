// SPDX-License-Identifier: MIT
// Broadcasting of contents that the client has. Internal to the library.
#pragma once
#include <cstdint>
#include <optional>
#include <vector>

#include "uopd/tensor.h"

namespace uopd::client::onnx {

inline constexpr int64_t kMostFoldedElements = 1 << 12;

// The common shape of two. nullopt: there is none, or it has more than kMostFoldedElements or more
// axes than a tensor may have.
std::optional<Dims> BroadcastDims(const Dims& a, const Dims& b);
// For each element of the shape `to` the place of the element of the shape `from` that stands
// there. REQUIRES: `from` broadcasts to `to`.
std::vector<int64_t> SpreadPlaces(const Dims& from, const Dims& to);

}  // namespace uopd::client::onnx
