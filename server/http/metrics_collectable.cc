// SPDX-License-Identifier: MIT
#include "server/http/metrics_collectable.h"

#include <limits>

namespace uopd::http {
namespace {

prometheus::MetricType TypeOf(MetricKind kind) {
  switch (kind) {
    case MetricKind::kCounter:
    case MetricKind::kTimeCounter:
      return prometheus::MetricType::Counter;
    case MetricKind::kGauge:
      return prometheus::MetricType::Gauge;
    case MetricKind::kHistogram:
      return prometheus::MetricType::Histogram;
  }
  return prometheus::MetricType::Untyped;
}

prometheus::ClientMetric::Histogram HistogramOf(const FamilySnapshot& family,
                                                const SeriesSnapshot& series) {
  prometheus::ClientMetric::Histogram out;
  out.sample_count = series.count;
  out.sample_sum = series.sum;
  uint64_t cumulative = 0;
  for (size_t i = 0; i < series.bucket_counts.size(); i++) {
    cumulative += series.bucket_counts[i];
    const double bound =
        i < family.bounds.size() ? family.bounds[i] : std::numeric_limits<double>::infinity();
    out.bucket.push_back({cumulative, bound});
  }
  return out;
}

}  // namespace

std::vector<prometheus::MetricFamily> MetricsCollectable::Collect() const {
  std::vector<prometheus::MetricFamily> out;
  for (const FamilySnapshot& family : registry_.Snapshot()) {
    prometheus::MetricFamily made;
    made.name = family.name;
    made.help = family.help;
    made.type = TypeOf(family.kind);
    for (const SeriesSnapshot& series : family.series) {
      prometheus::ClientMetric metric;
      for (size_t i = 0; i < family.label_names.size(); i++) {
        metric.label.push_back({std::string(family.label_names[i]), series.label_values[i]});
      }
      switch (family.kind) {
        case MetricKind::kCounter:
        case MetricKind::kTimeCounter:
          metric.counter.value = series.value;
          break;
        case MetricKind::kGauge:
          metric.gauge.value = series.value;
          break;
        case MetricKind::kHistogram:
          metric.histogram = HistogramOf(family, series);
          break;
      }
      made.metric.push_back(std::move(metric));
    }
    out.push_back(std::move(made));
  }
  return out;
}

}  // namespace uopd::http
