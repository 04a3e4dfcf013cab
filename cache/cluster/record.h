// SPDX-License-Identifier: MIT
// Records: rows of the cache as they lie in a tier that many daemons share.
//
//   "UOPR"  version u8  kind of the key u8  id of the key 8 bytes    the head, 14 bytes
//   body                                                             a zstd frame of the row's
//                                                                    fields
//   signature                                                        32 bytes (HMAC-SHA256) or 64
//                                                                    (Ed25519)
//
// The signature covers the head and the body as they are stored, and is checked before anything
// else looks at the body. The fields are the full key, the value, the times, the fence and the
// checksum of the row. A record that is copied to the place of another key is refused by its key.
// Daemons that do not know a version take the record for a miss.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cache/base/blobs.h"
#include "cache/base/row/row.h"
#include "cache/cluster/seal_key.h"

namespace uopd::cache {

// Why a record was not taken.
enum class RecordFault {
  kNone,
  kForeign,     // not a record, or cut off
  kVersion,     // of another version of the daemon
  kUnknownKey,  // signed by a key that is not trusted
  kSignature,   // changed after it was signed
  kTooLarge,    // its value would be larger than allowed
  kContent,     // signed, but not the fields of a row
  kChecksum,    // signed, but the row was damaged before
  kFence,       // signed, but under a lease with a token that cannot be true (tokens.h)
  kOtherKey,    // the row of another key
};
const char* Name(RecordFault fault);

// The record of a row. REQUIRES: key.can_sign().
std::string WriteRecord(const Row& row, const SealKey& key);

struct RecordResult {
  RecordFault fault = RecordFault::kNone;
  std::optional<Row> row;  // set if there is no fault; last_used_us is 0
};
// The row at an address, in a record whose bytes may be hostile. `max_bytes` bounds the memory that
// a record may need.
RecordResult ReadRecord(std::string_view bytes, const Digest& address,
                        const std::vector<SealKey>& trusted, size_t max_bytes,
                        int64_t now_us = WallClockUs());

}  // namespace uopd::cache
