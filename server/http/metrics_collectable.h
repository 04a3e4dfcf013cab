// SPDX-License-Identifier: MIT
// The metric registry of core/base as prometheus-cpp sees it.
//
// Holds a reference to the registry, which outlives it; thread-safe as the registry is.
#pragma once
#include <prometheus/collectable.h>
#include <prometheus/metric_family.h>

#include <vector>

#include "core/base/metrics.h"

namespace uopd::http {

class MetricsCollectable : public prometheus::Collectable {
 public:
  explicit MetricsCollectable(const MetricRegistry& registry) : registry_(registry) {}
  std::vector<prometheus::MetricFamily> Collect() const override;

 private:
  const MetricRegistry& registry_;
};

}  // namespace uopd::http
