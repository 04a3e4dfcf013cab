// SPDX-License-Identifier: MIT
#include "cache/base/blobs.h"

#include <chrono>

#include "core/base/status.h"

namespace uopd::cache {

const char* Name(GetOutcome outcome) {
  switch (outcome) {
    case GetOutcome::kHit:
      return "hit";
    case GetOutcome::kMiss:
      return "miss";
    case GetOutcome::kCorrupt:
      return "corrupt";
    case GetOutcome::kKeyMismatch:
      return "key_mismatch";
    case GetOutcome::kUnavailable:
      return "unavailable";
  }
  UOPD_CHECK(false);
}

const char* Name(Source source) {
  switch (source) {
    case Source::kNone:
      return "none";
    case Source::kMemory:
      return "memory";
    case Source::kDisk:
      return "disk";
    case Source::kCluster:
      return "cluster";
  }
  UOPD_CHECK(false);
}

GetResult Hit(const Row& row, Source source) {
  return {GetOutcome::kHit, source,
          Entry{row.value, row.cost_us, row.created_us, row.last_used_us, row.fence}};
}

int64_t WallClockUs() {
  return std::chrono::duration_cast<std::chrono::microseconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

}  // namespace uopd::cache
