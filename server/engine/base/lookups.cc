// SPDX-License-Identifier: MIT
#include "server/engine/base/lookups.h"

#include "core/base/telemetry/log.h"
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

void Refuse(const std::string& store, const absl::Status& why) {
  if (!absl::IsFailedPrecondition(why)) return CountCorrupt(store);
  UOPD_LOG(kWarn, "a record of a later version is set aside", {"store", store}, {"status", why});
}

}  // namespace uopd::engine
