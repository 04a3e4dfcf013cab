// SPDX-License-Identifier: MIT
#include "server/http/metrics_pages.h"

#include <prometheus/collectable.h>
#include <prometheus/metric_family.h>
#include <prometheus/text_serializer.h>
#include <limits>
#include <vector>

#include "core/base/telemetry/metrics.h"
#include "server/http/open_metrics.h"

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

// The metric registry of core/base in the form that prometheus-cpp reads.
//
// Refers to the registry, which outlives it. Thread-safe as the registry is.
class MetricsCollectable : public prometheus::Collectable {
 public:
  explicit MetricsCollectable(const MetricRegistry& registry) : registry_(registry) {}
  std::vector<prometheus::MetricFamily> Collect() const override;

 private:
  const MetricRegistry& registry_;
};

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

constexpr char kPrometheusText[] = "text/plain; version=0.0.4; charset=utf-8";
constexpr char kOpenMetrics[] = "application/openmetrics-text; version=1.0.0; charset=utf-8";

}  // namespace

Page MetricsPage(bool open_metrics) {
  const MetricRegistry& registry = MetricRegistry::Global();
  if (open_metrics) return {kOpenMetrics, OpenMetricsText(registry.Snapshot())};
  return {kPrometheusText,
          prometheus::TextSerializer().Serialize(MetricsCollectable(registry).Collect())};
}

const Page& MetricsPages::Get(bool open_metrics) {
  const Clock::time_point begin = clock_();
  if (window_ == Clock::time_point::min() || begin - window_ >= kWindow) {
    window_ = begin;
    spent_ = Clock::duration(0);
  }
  Kept& kept = kept_[open_metrics ? 1 : 0];
  if (spent_ < kShare || kept.window != window_) {
    kept.page = write_(open_metrics);
    kept.window = window_;
    spent_ += clock_() - begin;
  }
  return kept.page;
}

}  // namespace uopd::http
