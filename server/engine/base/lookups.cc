// SPDX-License-Identifier: MIT
#include "server/engine/base/lookups.h"

#include "core/base/telemetry/metrics.h"

namespace uopd::engine {

void CountLookup(const std::string& store, cache::GetOutcome outcome) {
  const char* result = "error";
  switch (outcome) {
    case cache::GetOutcome::kHit:
      result = "hit";
      break;
    case cache::GetOutcome::kMiss:
      result = "miss";
      break;
    case cache::GetOutcome::kCorrupt:
    case cache::GetOutcome::kKeyMismatch:
      result = "corrupt";
      break;
    case cache::GetOutcome::kUnavailable:
      break;
  }
  metrics::CacheRequests({store, result}).Increment();
}

void CountCorrupt(const std::string& store) {
  metrics::CacheRequests({store, "corrupt"}).Increment();
}

}  // namespace uopd::engine
