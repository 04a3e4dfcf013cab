// SPDX-License-Identifier: MIT
#include "server/engine/cache_gauges.h"

#include "core/base/telemetry/metrics.h"

namespace uopd::engine {

void CacheGauges::Publish(cache::Store& store) {
  const auto usage = store.ReadUsage();
  if (!usage.ok()) return;  // the health of the store says why
  std::set<std::string> empty = stores_;
  for (const cache::Usage& one : *usage) {
    stores_.insert(one.store);
    empty.erase(one.store);
    metrics::CacheRows({one.store}).Set(static_cast<double>(one.rows));
    metrics::CacheBytes({one.store}).Set(static_cast<double>(one.bytes));
  }
  for (const std::string& one : empty) {
    metrics::CacheRows({one}).Set(0);
    metrics::CacheBytes({one}).Set(0);
  }
}

}  // namespace uopd::engine
