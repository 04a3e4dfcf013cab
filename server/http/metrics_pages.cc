// SPDX-License-Identifier: MIT
#include "server/http/metrics_pages.h"

#include <prometheus/text_serializer.h>

#include "core/base/telemetry/metrics.h"
#include "server/http/metrics_collectable.h"
#include "server/http/open_metrics.h"

namespace uopd::http {
namespace {

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
