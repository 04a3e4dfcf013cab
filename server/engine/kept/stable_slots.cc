// SPDX-License-Identifier: MIT
#include "server/engine/kept/stable_slots.h"

#include <climits>

namespace uopd::engine {

void StableSlots::Note(std::span<const Contents> now) {
  slots_.resize(now.size());
  for (size_t i = 0; i < now.size(); ++i) {
    Slot& slot = slots_[i];
    if (now[i].version == 0) {
      slot = {};
    } else if (now[i] == slot.last) {
      slot.runs += slot.runs < INT_MAX ? 1 : 0;
    } else {
      slot = {now[i], 1};
    }
  }
}

std::vector<bool> StableSlots::For(int runs) const {
  std::vector<bool> out(slots_.size());
  for (size_t i = 0; i < slots_.size(); ++i) out[i] = slots_[i].runs >= runs;
  return out;
}

}  // namespace uopd::engine
