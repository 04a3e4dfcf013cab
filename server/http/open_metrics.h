// SPDX-License-Identifier: MIT
// Metrics in the text of OpenMetrics 1.0 (https://prometheus.io/docs/specs/om/open_metrics_spec),
// with exemplars.
#pragma once
#include <span>
#include <string>
#include <string_view>

#include "core/base/telemetry/metrics.h"

namespace uopd::http {

// The names of counters end in _total, those of families with a unit in the unit before that.
std::string OpenMetricsText(std::span<const FamilySnapshot> families);

// The choice between the two texts of /metrics, by the Accept header of a request (RFC 9110,
// 12.5.1).
//
// True if the head of a request accepts OpenMetrics of a version up to 1.0.0, and prefers no other
// text to it. False in doubt: without such a header, or for one that makes no sense. Takes time
// linear in the head.
bool PrefersOpenMetrics(std::string_view head);

}  // namespace uopd::http
