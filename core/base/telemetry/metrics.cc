// SPDX-License-Identifier: MIT
#include "core/base/telemetry/metrics.h"

#include <algorithm>
#include <chrono>
#include <map>
#include <mutex>
#include <shared_mutex>
#include <variant>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "core/base/status.h"

namespace uopd {
namespace {

constexpr double kSeconds[] = {1e-5, 2.5e-5, 5e-5,   1e-4, 2.5e-4, 5e-4, 1e-3, 2.5e-3,
                               5e-3, 1e-2,   2.5e-2, 5e-2, 0.1,    0.25, 0.5,  1,
                               2.5,  5,      10,     25,   50,     100};
constexpr double kFastSeconds[] = {1e-6, 2e-6, 5e-6, 1e-5, 2e-5, 5e-5, 1e-4, 2e-4, 5e-4, 1e-3,
                                   2e-3, 5e-3, 1e-2, 2e-2, 5e-2, 0.1,  0.2,  0.5,  1};
constexpr double kCoarseSeconds[] = {1e-3, 5e-3, 2.5e-2, 0.1, 0.25, 0.5, 1, 2.5, 10, 60};
constexpr std::span<const double> kNoBuckets;

struct LabelSpec {
  size_t max_series = 1;
  std::array<std::string_view, MetricSpec::kMaxLabels> names{};
};
constexpr LabelSpec None() { return {}; }
constexpr LabelSpec Labels(size_t max_series, std::string_view first, std::string_view second = {},
                           std::string_view third = {}) {
  return {max_series, {first, second, third}};
}

constexpr MetricSpec kMetrics[] = {
#define UOPD_METRIC(kind, Function, name, labels, buckets, help) \
  {MetricKind::k##kind, name, labels.max_series, labels.names, buckets, help},
#include "core/base/telemetry/metrics.def"
};

enum MetricIndex : size_t {
#define UOPD_METRIC(kind, Function, name, labels, buckets, help) k##Function,
#include "core/base/telemetry/metrics.def"
};

constexpr std::string_view kOther = "other";

const char* KindName(MetricKind kind) {
  switch (kind) {
    case MetricKind::kCounter:
    case MetricKind::kTimeCounter:
      return "counter";
    case MetricKind::kGauge:
      return "gauge";
    case MetricKind::kHistogram:
      return "histogram";
  }
  UOPD_CHECK(false);
}

}  // namespace

uint64_t Counter::value() const {
  uint64_t total = 0;
  for (const Shard& shard : shards_) total += shard.value.load(std::memory_order_relaxed);
  return total;
}

Histogram::Histogram(std::span<const double> bounds) : bounds_(bounds) {
  UOPD_CHECK(bounds.size() <= kMaxBounds && std::is_sorted(bounds.begin(), bounds.end()));
}

void Histogram::Observe(double value) { Count(value); }

void Histogram::Observe(double value, const ExemplarId& id) {
  const size_t bucket = Count(value);
  if (id.text().empty()) return;
  ExemplarSlots* slots = exemplars_.load(std::memory_order_acquire);
  const int64_t now_ms = CoarseMs();
  if (slots != nullptr && !slots->Wants(bucket, id.traced(), now_ms)) return;
  if (!id.usable()) return;
  if (slots == nullptr) {
    auto made = std::make_unique<ExemplarSlots>(bounds_.size() + 1);
    if (exemplars_.compare_exchange_strong(slots, made.get(), std::memory_order_acq_rel)) {
      slots = made.release();
    }
  }
  slots->OfferAt(bucket, id, value, now_ms);
}

std::vector<std::optional<Exemplar>> Histogram::exemplars() const {
  const ExemplarSlots* slots = exemplars_.load(std::memory_order_acquire);
  std::vector<std::optional<Exemplar>> out;
  if (slots == nullptr) return out;
  for (size_t i = 0; i <= bounds_.size(); i++) out.push_back(slots->Read(i));
  return out;
}

size_t Histogram::Count(double value) {
  const size_t bucket = std::lower_bound(bounds_.begin(), bounds_.end(), value) - bounds_.begin();
  Shard& shard = shards_[metrics_internal::ThisShard()];
  shard.counts[bucket].fetch_add(1, std::memory_order_relaxed);
  shard.sum.fetch_add(value, std::memory_order_relaxed);
  return bucket;
}

std::vector<uint64_t> Histogram::bucket_counts() const {
  std::vector<uint64_t> out(bounds_.size() + 1);
  for (const Shard& shard : shards_) {
    for (size_t i = 0; i < out.size(); i++)
      out[i] += shard.counts[i].load(std::memory_order_relaxed);
  }
  return out;
}

double Histogram::sum() const {
  double total = 0;
  for (const Shard& shard : shards_) total += shard.sum.load(std::memory_order_relaxed);
  return total;
}

struct MetricRegistry::Series {
  std::variant<std::monostate, Counter, TimeCounter, Gauge, Histogram> value;
};

struct MetricRegistry::Family {
  using Key = std::array<std::string, MetricSpec::kMaxLabels>;

  const MetricSpec* spec;
  mutable std::shared_mutex mu;  // guards the map, not the values in it
  // Ordered, so that exports do not depend on hashes; std::map never moves its values.
  std::map<Key, Series> series;

  Series& Make(const Key& key) {
    Series& made = series[key];
    if (made.value.index() != 0) return made;
    switch (spec->kind) {
      case MetricKind::kCounter:
        made.value.emplace<Counter>();
        break;
      case MetricKind::kTimeCounter:
        made.value.emplace<TimeCounter>();
        break;
      case MetricKind::kGauge:
        made.value.emplace<Gauge>();
        break;
      case MetricKind::kHistogram:
        made.value.emplace<Histogram>(spec->bounds);
        break;
    }
    return made;
  }
};

MetricRegistry::MetricRegistry(std::span<const MetricSpec> specs) {
  for (const MetricSpec& spec : specs) {
    auto family = std::make_unique<Family>();
    family->spec = &spec;
    // Series without labels are exported from the start, because Prometheus gives no result (not 0)
    // for the rate of a missing series.
    if (spec.label_count() == 0) family->Make({});
    families_.push_back(std::move(family));
  }
}

MetricRegistry::~MetricRegistry() = default;

MetricRegistry& MetricRegistry::Global() {
  static MetricRegistry& registry = [&]() -> MetricRegistry& {
    auto* made =
        new MetricRegistry(kMetrics);  // never freed: threads may count while the process exits
    auto now = std::chrono::system_clock::now().time_since_epoch();
    made->GetGauge(kProcessStartTime).Set(std::chrono::duration<double>(now).count());
    return *made;
  }();
  return registry;
}

MetricRegistry::Series& MetricRegistry::Find(size_t index, MetricKind kind,
                                             std::initializer_list<std::string_view> label_values) {
  Family& family = *families_.at(index);
  UOPD_CHECK(family.spec->kind == kind && family.spec->label_count() == label_values.size());
  Family::Key key;
  std::copy(label_values.begin(), label_values.end(), key.begin());
  {
    std::shared_lock lock(family.mu);
    if (auto it = family.series.find(key); it != family.series.end()) return it->second;
  }
  std::unique_lock lock(family.mu);
  if (family.series.size() >= family.spec->max_series && !family.series.contains(key)) {
    std::fill_n(key.begin(), label_values.size(), std::string(kOther));
  }
  return family.Make(key);
}

Counter& MetricRegistry::GetCounter(size_t index,
                                    std::initializer_list<std::string_view> label_values) {
  return std::get<Counter>(Find(index, MetricKind::kCounter, label_values).value);
}
TimeCounter& MetricRegistry::GetTimeCounter(size_t index,
                                            std::initializer_list<std::string_view> label_values) {
  return std::get<TimeCounter>(Find(index, MetricKind::kTimeCounter, label_values).value);
}
Gauge& MetricRegistry::GetGauge(size_t index,
                                std::initializer_list<std::string_view> label_values) {
  return std::get<Gauge>(Find(index, MetricKind::kGauge, label_values).value);
}
Histogram& MetricRegistry::GetHistogram(size_t index,
                                        std::initializer_list<std::string_view> label_values) {
  return std::get<Histogram>(Find(index, MetricKind::kHistogram, label_values).value);
}

void MetricRegistry::Forget(std::string_view name,
                            std::initializer_list<std::string_view> label_values) {
  Family::Key key;
  UOPD_CHECK(label_values.size() <= key.size());
  std::copy(label_values.begin(), label_values.end(), key.begin());
  for (const auto& family : families_) {
    if (family->spec->name != name) continue;
    const std::unique_lock lock(family->mu);
    family->series.erase(key);
  }
}

std::vector<FamilySnapshot> MetricRegistry::Snapshot() const {
  std::vector<FamilySnapshot> out;
  for (const auto& family : families_) {
    const MetricSpec& spec = *family->spec;
    const size_t labels = spec.label_count();
    FamilySnapshot snapshot{
        absl::StrCat("uopd_", std::string(spec.name)),
        spec.kind == MetricKind::kTimeCounter ? MetricKind::kCounter : spec.kind,
        spec.help,
        {spec.labels.begin(), spec.labels.begin() + labels},
        spec.bounds,
        {}};
    std::shared_lock lock(family->mu);
    for (const auto& [key, series] : family->series) {
      SeriesSnapshot point;
      point.label_values.assign(key.begin(), key.begin() + labels);
      if (auto* counter = std::get_if<Counter>(&series.value)) {
        point.value = static_cast<double>(counter->value());
      } else if (auto* time = std::get_if<TimeCounter>(&series.value)) {
        point.value = time->seconds();
      } else if (auto* gauge = std::get_if<Gauge>(&series.value)) {
        point.value = gauge->value();
      } else if (auto* histogram = std::get_if<Histogram>(&series.value)) {
        point.bucket_counts = histogram->bucket_counts();
        for (uint64_t count : point.bucket_counts) point.count += count;
        point.sum = histogram->sum();
        point.exemplars = histogram->exemplars();
      }
      snapshot.series.push_back(std::move(point));
    }
    out.push_back(std::move(snapshot));
  }
  return out;
}

std::span<const MetricSpec> Metrics() { return kMetrics; }

std::string MetricsDocs() {
  std::string out =
      "| metric | kind | labels | meaning |\n"
      "|---|---|---|---|\n";
  for (const MetricSpec& spec : kMetrics) {
    std::string labels;
    for (size_t i = 0; i < spec.label_count(); i++) {
      absl::StrAppend(&labels, i ? ", " : "", "`", std::string(spec.labels[i]), "`");
    }
    absl::StrAppend(&out, "| `uopd_", std::string(spec.name), "` | ", KindName(spec.kind), " | ",
                    labels, " | ", std::string(spec.help), " |\n");
  }
  return out;
}

namespace metrics {
#define UOPD_METRIC(kind, Function, name, labels, buckets, help)          \
  kind& Function(std::initializer_list<std::string_view> label_values) {  \
    return MetricRegistry::Global().Get##kind(k##Function, label_values); \
  }
#include "core/base/telemetry/metrics.def"
}  // namespace metrics

}  // namespace uopd
