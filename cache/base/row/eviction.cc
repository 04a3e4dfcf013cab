// SPDX-License-Identifier: MIT
#include "cache/base/row/eviction.h"

#include <algorithm>
#include <cmath>

namespace uopd::cache {

int64_t KeepScore(int64_t last_used_us, int64_t cost_us, int64_t size_bytes) {
  const double kib = std::max(1.0, static_cast<double>(size_bytes) / 1024);
  const double per_kib = static_cast<double>(std::max<int64_t>(cost_us, 0)) / kib;
  return last_used_us +
         static_cast<int64_t>(static_cast<double>(kHeadStartUs) * std::log2(1 + per_kib));
}

}  // namespace uopd::cache
