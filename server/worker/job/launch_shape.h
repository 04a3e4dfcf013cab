// SPDX-License-Identifier: MIT
// The dimensions of a launch for given values of a kernel's variables.
#pragma once
#include <span>

#include "core/codegen/launch_size.h"
#include "devices/api/kernel_code.h"

namespace uopd::worker {

inline devices::LaunchShape ShapeOf(const codegen::LaunchGeometry& geometry,
                                    std::span<const int64_t> variables) {
  devices::LaunchShape out;
  for (int i = 0; i < 3; ++i) {
    out.grid[i] = geometry.grid[i].Evaluate(variables);
    out.block[i] = geometry.block[i].Evaluate(variables);
  }
  out.shared_bytes = geometry.shared_bytes;
  out.maps = geometry.maps;
  return out;
}

// True if a dimension is 0 or negative. Then there is nothing to launch, as for a loop of such a
// size.
inline bool IsEmpty(const devices::LaunchShape& shape) {
  for (int i = 0; i < 3; ++i) {
    if (shape.grid[i] < 1 || shape.block[i] < 1) return true;
  }
  return false;
}

}  // namespace uopd::worker
