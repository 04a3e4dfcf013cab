// SPDX-License-Identifier: MIT
#include "client/cpp/graph/buffer_table.h"

#include <utility>

namespace uopd::client {
namespace {

// Numbers that wait for a buffer of their kind, in addition to as many as there are buffers.
constexpr size_t kMostFree = 256;

}  // namespace

uint64_t BufferTable::Take(const Kind& kind) {
  if (const auto it = free_.find(kind); it != free_.end() && !it->second.empty()) {
    const uint64_t number = it->second.back();
    it->second.pop_back();
    --n_free_;
    return number;
  }
  if (!spare_.empty()) {
    const uint64_t number = spare_.back();
    spare_.pop_back();
    return number;
  }
  places_.emplace_back();
  return places_.size() - 1;
}

uint64_t BufferTable::Add(ClientBuffer buffer, const ir::Dims& dims) {
  const uint64_t number = Take({buffer.dtype, dims, buffer.device});
  Place& place = places_[number];
  place.buffer = std::move(buffer);
  place.dims = dims;
  place.used = true;
  ++used_;
  return number;
}

void BufferTable::Remove(uint64_t number) {
  Place& place = places_[number];
  free_[{place.buffer.dtype, std::move(place.dims), std::move(place.buffer.device)}].push_back(
      number);
  place = Place();
  --used_;
  if (++n_free_ <= kMostFree + used_) return;
  for (const auto& [kind, numbers] : free_)
    spare_.insert(spare_.end(), numbers.begin(), numbers.end());
  free_.clear();
  n_free_ = 0;
}

}  // namespace uopd::client
