// SPDX-License-Identifier: MIT
// Metrics in the text of OpenMetrics 1.0 (https://prometheus.io/docs/specs/om/open_metrics_spec),
// with exemplars.
#pragma once
#include <span>
#include <string>

#include "core/base/telemetry/metrics.h"

namespace uopd::http {

// The names of counters end in _total, those of families with a unit in the unit before that.
std::string OpenMetricsText(std::span<const FamilySnapshot> families);

}  // namespace uopd::http
