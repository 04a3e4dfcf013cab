// SPDX-License-Identifier: MIT
#include "server/engine/readiness.h"

#include <algorithm>

#include "core/base/telemetry/metrics.h"
#include "core/base/text.h"

namespace uopd::engine {
std::string Texts(const std::vector<ReadyReason>& reasons, std::string_view separator) {
  std::string out;
  for (const ReadyReason& reason : reasons) Append(out, out.empty() ? "" : separator, reason.text);
  return out;
}

void Publish(const Readiness& readiness) {
  const auto has = [](const std::vector<ReadyReason>& reasons, std::string_view name) {
    return std::ranges::find(reasons, name, &ReadyReason::name) != reasons.end();
  };
  metrics::Ready({"ready"}).Set(readiness.not_ready.empty() ? 1 : 0);
  metrics::Ready({"not_ready"}).Set(readiness.not_ready.empty() ? 0 : 1);
  metrics::Ready({"degraded"}).Set(readiness.degraded.empty() ? 0 : 1);
  for (const std::string_view name : kNotReadyReasons)
    metrics::Ready({name}).Set(has(readiness.not_ready, name) ? 1 : 0);
  for (const std::string_view name : kDegradedReasons)
    metrics::Ready({name}).Set(has(readiness.degraded, name) ? 1 : 0);
}

}  // namespace uopd::engine
