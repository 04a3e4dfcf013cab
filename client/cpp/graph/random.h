// SPDX-License-Identifier: MIT
// Random tensors as graphs: Threefry of counters, where the first counter is a small input.
// Internal to the library.
#pragma once
#include <memory>

#include "client/cpp/graph/graph_state.h"
#include "uopd/tensor.h"

namespace uopd::client {

// f32 in [0, 1), multiples of 2^-24. REQUIRES: dims are those of a tensor.
Tensor RandomUniform(const std::shared_ptr<GraphState>& graph, const Dims& dims, Site site);
// f32, standard normal, by Box and Muller's method.
Tensor RandomNormal(const std::shared_ptr<GraphState>& graph, const Dims& dims, Site site);

}  // namespace uopd::client
