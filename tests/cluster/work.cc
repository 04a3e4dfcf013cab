// SPDX-License-Identifier: MIT
#include "tests/cluster/work.h"

#include <algorithm>

#include "tests/e2e/graphs.h"

namespace uopd::cluster {

Work MakeWork(int i) {
  const size_t n = 64 + 8 * static_cast<size_t>(i);  // the size makes the kernel
  std::vector<float> x(n), y(n), sums(n, 0);
  for (size_t j = 0; j < n; ++j) {
    x[j] = static_cast<float>(j * 7 % 50);
    y[j] = static_cast<float>(j * 13 % 60);
  }
  for (size_t j = 0; j < n; ++j) {
    for (const float v : y) sums[j] += std::max(x[j], v);
  }
  return {
      e2e::PairsGraph(static_cast<int64_t>(n)), {e2e::Bytes(x), e2e::Bytes(y)}, e2e::Bytes(sums)};
}

}  // namespace uopd::cluster
