// SPDX-License-Identifier: MIT
#include "tests/simulation/key_table.h"

#include "core/base/text.h"

namespace uopd::sim {

uint32_t KeyTable::Touch(uint32_t environment, uint64_t name) {
  const auto first = static_cast<uint32_t>(slots_.size());
  const auto [it, added] = by_name_.try_emplace((uint64_t{environment} << 40) | name, first);
  if (!added) return it->second;
  std::vector<uint32_t>& local = local_[environment];
  for (const bool tuning : {false, true}) {
    const auto slot = static_cast<uint32_t>(slots_.size());
    slots_.push_back({.name = name,
                      .local = static_cast<uint32_t>(local.size()),
                      .environment = environment,
                      .tuning = tuning});
    local.push_back(slot);
    slots_.back().address = KeyOf(slot).address();
    by_address_.emplace(slots_.back().address, slot);
  }
  return first;
}

std::optional<uint32_t> KeyTable::Find(const Digest& address) const {
  const auto it = by_address_.find(address);
  if (it == by_address_.end()) return std::nullopt;
  return it->second;
}

cache::Key KeyTable::KeyOf(uint32_t slot) const {
  const Slot& one = slots_[slot];
  return {one.tuning ? "tuning" : "kernel", Cat("n", one.name), Cat("env ", one.environment)};
}

}  // namespace uopd::sim
