// SPDX-License-Identifier: MIT
#include "tests/simulation/server/server_load.h"

#include <algorithm>

namespace uopd::sim {

void ServerLoad::Advance(int64_t now_us) {
  const int64_t begin = now_us / kStepUs;
  if (begin - begin_ >= kSteps)
    std::ranges::fill(used_, uint8_t{0});
  else
    for (; begin_ < begin; ++begin_) Used(begin_) = 0;
  begin_ = std::max(begin_, begin);
  full_ = std::max(full_, begin_);
}

std::optional<int64_t> ServerLoad::Serve(int64_t at_us, int64_t cost_us) {
  int64_t step = std::max(at_us / kStepUs, full_);
  while (step * kStepUs - begin_ * kStepUs < kHorizonUs && Used(step) == kStepUs) ++step;
  if ((step - begin_) * kStepUs + cost_us >= kHorizonUs) return std::nullopt;
  busy_us_ += cost_us;
  int64_t done = 0;
  for (int64_t left = cost_us; left > 0; ++step) {
    uint8_t& used = Used(step);
    const int64_t take = std::min<int64_t>(left, kStepUs - used);
    used = static_cast<uint8_t>(used + take);
    left -= take;
    done = step * kStepUs + used;
    if (left == 0) break;
  }
  while (full_ - begin_ < kSteps / 2 && Used(full_) == kStepUs) ++full_;
  return std::max(done, at_us + cost_us);
}

void ServerLoad::Clear() {
  std::ranges::fill(used_, uint8_t{0});
  full_ = begin_;
}

}  // namespace uopd::sim
