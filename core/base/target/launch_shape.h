// SPDX-License-Identifier: MIT
// The dimensions of one launch of a kernel. Codegen says them as expressions
// (codegen::LaunchGeometry), a device launches them. Plain data.
#pragma once
#include <algorithm>
#include <cstdint>
#include <vector>

#include "core/base/target/tensor_map.h"

namespace uopd {

// A device takes dimensions from 1 to what its Target allows. A CPU runs grid[0] threads and has no
// blocks.
struct LaunchShape {
  int64_t grid[3] = {1, 1, 1};
  int64_t block[3] = {1, 1, 1};
  int64_t shared_bytes = 0;
  // What the kernel copies boxes of; only where Target::bulk_copies. They follow the other
  // arguments, in this order.
  std::vector<TensorMap> maps;

  // True if a dimension is 0 or negative. Then there is nothing to launch, as for a loop of such a
  // size.
  bool empty() const { return std::ranges::min(grid) < 1 || std::ranges::min(block) < 1; }
};

}  // namespace uopd
