// SPDX-License-Identifier: MIT
// Digests with a key: HMAC-SHA256 (RFC 2104, FIPS 198-1). Whoever lacks the key, or any byte of the
// data, cannot tell the digest.
#pragma once
#include <string_view>

#include "core/base/digest.h"

namespace uopd {

// Incremental. Not thread-safe.
class KeyedHasher {
 public:
  // A key may have any length. Those of more than 64 bytes are hashed first, as the standard says.
  explicit KeyedHasher(std::string_view key);
  void Update(std::string_view data) { inner_.Update(data); }
  Digest Finish();  // leaves the hasher unusable

 private:
  Hasher inner_, outer_;
};

Digest KeyedDigest(std::string_view key, std::string_view data);

// Takes the same time whatever the bytes are.
bool SameInConstantTime(const Digest& a, const Digest& b);

}  // namespace uopd
