// SPDX-License-Identifier: MIT
#include "cache/base/row/row.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace uopd::cache {
namespace {

constexpr int64_t kRowOverhead = 256;

void Add(XXH3_state_t* state, std::string_view part) {
  const uint64_t size = part.size();
  XXH3_128bits_update(state, &size, sizeof size);
  if (size > 0) XXH3_128bits_update(state, part.data(), part.size());
}

}  // namespace

Row MakeRow(const Key& key, std::string value, int64_t cost_us, int64_t now_us, int64_t fence) {
  Row row{.store = key.store(),
          .semantic = key.semantic(),
          .environment = key.environment(),
          .value = std::move(value),
          .cost_us = cost_us,
          .created_us = now_us,
          .last_used_us = now_us,
          .fence = fence};
  row.checksum = Checksum(row);
  return row;
}

std::string Checksum(const Row& row) {
  XXH3_state_t state;
  XXH3_128bits_reset(&state);
  Add(&state, row.store);
  Add(&state, row.semantic);
  Add(&state, row.environment);
  Add(&state, row.value);
  const int64_t numbers[] = {row.cost_us, row.created_us, row.fence};
  XXH3_128bits_update(&state, numbers, sizeof numbers);
  XXH128_canonical_t out;
  XXH128_canonicalFromHash(&out, XXH3_128bits_digest(&state));
  return std::string(reinterpret_cast<const char*>(out.digest), sizeof out.digest);
}

Key KeyOf(const Row& row) { return Key(row.store, row.semantic, row.environment); }

bool KeyMatches(const Row& row, const Key& key) {
  return row.store == key.store() && row.environment == key.environment() &&
         row.semantic == key.semantic();
}

int64_t SizeOf(const Row& row) {
  return static_cast<int64_t>(row.store.size() + row.semantic.size() + row.environment.size() +
                              row.value.size()) +
         kRowOverhead;
}

}  // namespace uopd::cache
