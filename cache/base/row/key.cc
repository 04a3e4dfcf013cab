// SPDX-License-Identifier: MIT
#include "cache/base/row/key.h"

namespace uopd::cache {

Digest AddressOf(std::string_view store, std::string_view semantic, std::string_view environment) {
  Hasher hasher;
  for (std::string_view part : {store, semantic, environment}) {
    char length[8];
    for (int i = 0; i < 8; ++i) length[i] = static_cast<char>(uint64_t{part.size()} >> (8 * i));
    hasher.Update(std::string_view(length, sizeof length));
    hasher.Update(part);
  }
  return hasher.Finish();
}

}  // namespace uopd::cache
