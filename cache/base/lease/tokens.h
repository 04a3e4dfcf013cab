// SPDX-License-Identifier: MIT
// Decides which tokens of leases are possible. Every tier asks these functions about each token
// that it reads: files, memory, records, and the servers that daemons share.
//
// Tokens follow the clock (leases.h), so a token that is far in the future is damaged, or a lie.
// Were it believed, every row that is put under it would keep all later ones out, and no owner
// would ever get a greater one.
#pragma once
#include <cstdint>

#include "cache/base/blobs.h"

namespace uopd::cache {

// So far the clocks of two machines may differ: a year.
inline constexpr int64_t kFarthestTokenUs = int64_t{365} * 24 * 3600 * 1'000'000;

inline bool IsPlausibleToken(int64_t token, int64_t now_us) {
  return token >= 1 && token <= now_us + kFarthestTokenUs;
}

// The fence of a row is the token of a lease, or 0: it was put without a lease.
inline bool IsPlausibleFence(int64_t fence, int64_t now_us) {
  return fence == 0 || IsPlausibleToken(fence, now_us);
}

// Whether a row with the fence `there` stays when one with the fence `comes` is put at the same
// address.
inline bool KeepsOut(int64_t there, int64_t comes, int64_t now_us) {
  return there > comes && IsPlausibleToken(there, now_us);
}

}  // namespace uopd::cache
