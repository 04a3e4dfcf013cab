// SPDX-License-Identifier: MIT
#include "cache/store.h"

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

const char* Name(State state) {
  switch (state) {
    case State::kOk:
      return "ok";
    case State::kRecovered:
      return "recovered";
    case State::kReadOnly:
      return "read_only";
    case State::kMemory:
      return "memory";
  }
  UOPD_CHECK(false);
}

int64_t WallClockUs() {
  return std::chrono::duration_cast<std::chrono::microseconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

}  // namespace uopd::cache
