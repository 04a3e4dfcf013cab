// SPDX-License-Identifier: MIT
#include "core/base/keyed_digest.h"

#include <algorithm>
#include <array>

namespace uopd {

KeyedHasher::KeyedHasher(std::string_view key) {
  std::array<char, 64> block{};
  if (key.size() > block.size()) {
    const Digest short_key = HashBytes(key);
    std::ranges::copy(short_key.view(), block.begin());
  } else {
    std::ranges::copy(key, block.begin());
  }
  const auto begin = [&](Hasher& hasher, char pad) {
    std::array<char, 64> mixed = block;
    for (char& c : mixed) c = static_cast<char>(c ^ pad);
    hasher.Update({mixed.data(), mixed.size()});
  };
  begin(inner_, 0x36);
  begin(outer_, 0x5c);
}

Digest KeyedHasher::Finish() {
  outer_.Update(inner_.Finish().view());
  return outer_.Finish();
}

Digest KeyedDigest(std::string_view key, std::string_view data) {
  KeyedHasher hasher(key);
  hasher.Update(data);
  return hasher.Finish();
}

bool SameInConstantTime(const Digest& a, const Digest& b) {
  unsigned difference = 0;
  for (size_t i = 0; i < a.bytes.size(); ++i) {
    difference |= static_cast<unsigned>(a.bytes[i] ^ b.bytes[i]);
  }
  return difference == 0;
}

}  // namespace uopd
