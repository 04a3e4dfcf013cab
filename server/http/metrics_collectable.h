// SPDX-License-Identifier: MIT
// The metric registry of core/base in the form that prometheus-cpp reads.
//
// Refers to the registry, which outlives it. Thread-safe as the registry is.
#pragma once
#include <prometheus/collectable.h>
#include <prometheus/metric_family.h>

#include <vector>

#include "core/base/telemetry/metrics.h"

namespace uopd::http {

class MetricsCollectable : public prometheus::Collectable {
 public:
  explicit MetricsCollectable(const MetricRegistry& registry) : registry_(registry) {}
  std::vector<prometheus::MetricFamily> Collect() const override;

 private:
  const MetricRegistry& registry_;
};

}  // namespace uopd::http
