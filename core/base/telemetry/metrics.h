// SPDX-License-Identifier: MIT
// The daemon's metrics: counters, gauges and histograms, declared in metrics.def. Exporters read
// them with Snapshot().
//
//   metrics::KernelsCompiled().Increment();
//   Histogram& time = metrics::KernelDuration({"CPU"});  // looking up labels takes a lock: keep it
//   time.Observe(seconds);
//
// Everything is thread-safe. A series lives as long as its registry (the global one is never
// destroyed), so references to it may be kept. Counting writes to one of kShards cache lines, which
// the thread chooses: it takes a few nanoseconds, without contention. Nothing here fails: beyond
// the bound of a family, all new label values share the series "other".
#pragma once
#include <array>
#include <atomic>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/telemetry/exemplar.h"

namespace uopd {

enum class MetricKind : uint8_t { kCounter, kTimeCounter, kGauge, kHistogram };

namespace metrics_internal {
inline constexpr size_t kShards = 8;
inline std::atomic<unsigned> next_shard{0};
inline size_t ThisShard() {
  thread_local const size_t shard = next_shard.fetch_add(1, std::memory_order_relaxed) % kShards;
  return shard;
}
}  // namespace metrics_internal

// A value that only grows.
class Counter {
 public:
  void Increment(uint64_t by = 1) {
    shards_[metrics_internal::ThisShard()].value.fetch_add(by, std::memory_order_relaxed);
  }
  uint64_t value() const;

 private:
  struct alignas(64) Shard {
    std::atomic<uint64_t> value{0};
  };
  std::array<Shard, metrics_internal::kShards> shards_;
};

// Time that only grows: counted in nanoseconds, exported in seconds.
class TimeCounter {
 public:
  void AddNs(uint64_t ns) { ns_.Increment(ns); }
  double seconds() const { return static_cast<double>(ns_.value()) * 1e-9; }

 private:
  Counter ns_;
};

class Gauge {
 public:
  void Set(double value) { value_.store(value, std::memory_order_relaxed); }
  void Add(double by) { value_.fetch_add(by, std::memory_order_relaxed); }
  double value() const { return value_.load(std::memory_order_relaxed); }

 private:
  std::atomic<double> value_{0};
};

// Adds 1 to a gauge for the life of a scope.
class GaugeScope {
 public:
  explicit GaugeScope(Gauge& gauge) : gauge_(gauge) { gauge_.Add(1); }
  ~GaugeScope() { gauge_.Add(-1); }
  GaugeScope(const GaugeScope&) = delete;
  GaugeScope& operator=(const GaugeScope&) = delete;

 private:
  Gauge& gauge_;
};

// Counts observations per bucket. Bucket i holds values <= bounds[i] and above those of the bucket
// before; one more bucket holds the rest.
class Histogram {
 public:
  static constexpr size_t kMaxBounds = 23;

  explicit Histogram(
      std::span<const double> bounds);  // REQUIRES: ascending, at most kMaxBounds, outlives *this
  ~Histogram() { delete exemplars_.load(); }
  Histogram(const Histogram&) = delete;
  Histogram& operator=(const Histogram&) = delete;

  void Observe(double value);
  // The same, and offers the request that took `value` as the exemplar of its bucket.
  void Observe(double value, const ExemplarId& id);

  std::span<const double> bounds() const { return bounds_; }
  std::vector<uint64_t> bucket_counts() const;  // not cumulative; bounds().size() + 1 of them
  double sum() const;
  // One per bucket. Empty: there was no exemplar at all.
  std::vector<std::optional<Exemplar>> exemplars() const;

 private:
  size_t Count(double value);  // returns the bucket

  struct alignas(64) Shard {
    std::atomic<double> sum{0};
    std::array<std::atomic<uint64_t>, kMaxBounds + 1> counts{};
  };
  std::span<const double> bounds_;
  std::array<Shard, metrics_internal::kShards> shards_;
  std::atomic<ExemplarSlots*> exemplars_{nullptr};  // owned; made for the first exemplar
};

// One line of metrics.def.
struct MetricSpec {
  static constexpr size_t kMaxLabels = 3;

  MetricKind kind;
  std::string_view name;  // without the prefix "uopd_"
  size_t max_series;      // of distinct label values; "other" comes on top
  std::array<std::string_view, kMaxLabels> labels;
  std::span<const double> bounds;  // histograms only
  std::string_view help;

  size_t label_count() const {
    size_t count = 0;
    while (count < kMaxLabels && !labels[count].empty()) ++count;
    return count;
  }
};

struct SeriesSnapshot {
  std::vector<std::string> label_values;  // one per label name
  double value = 0;                       // counters and gauges
  std::vector<uint64_t>
      bucket_counts;   // histograms; not cumulative, the last one holds what is above all bounds
  uint64_t count = 0;  // the sum of bucket_counts
  double sum = 0;
  std::vector<std::optional<Exemplar>> exemplars;  // empty, or one per bucket
};

struct FamilySnapshot {
  std::string name;  // with the prefix
  MetricKind kind;   // a kTimeCounter is a kCounter here
  std::string_view help;
  std::vector<std::string_view> label_names;
  std::span<const double> bounds;
  std::vector<SeriesSnapshot> series;  // sorted by label values
};

// The families of one table. The daemon uses Global(); tests make their own.
class MetricRegistry {
 public:
  explicit MetricRegistry(std::span<const MetricSpec> specs);  // `specs` outlive *this
  ~MetricRegistry();
  static MetricRegistry& Global();  // of metrics.def; never destroyed

  // The series of family `index` with these label values, made on first use.
  // REQUIRES: the family is of this kind and has that many labels.
  Counter& GetCounter(size_t index, std::initializer_list<std::string_view> label_values = {});
  TimeCounter& GetTimeCounter(size_t index,
                              std::initializer_list<std::string_view> label_values = {});
  Gauge& GetGauge(size_t index, std::initializer_list<std::string_view> label_values = {});
  Histogram& GetHistogram(size_t index, std::initializer_list<std::string_view> label_values = {});

  // Removes the series of these label values from the family of this name (without the prefix), if
  // there is one. REQUIRES: nobody keeps a reference to the series.
  void Forget(std::string_view name, std::initializer_list<std::string_view> label_values);

  // All families in table order. A value that changes during the call may be the old or the new
  // one.
  std::vector<FamilySnapshot> Snapshot() const;

 private:
  struct Series;
  struct Family;
  Series& Find(size_t index, MetricKind kind, std::initializer_list<std::string_view> label_values);
  std::vector<std::unique_ptr<Family>> families_;
};

std::span<const MetricSpec> Metrics();  // metrics.def
std::string MetricsDocs();              // as a Markdown table, for docs/monitoring.md

// One function per line of metrics.def.
namespace metrics {
#define UOPD_METRIC(kind, Function, name, labels, buckets, help) \
  kind& Function(std::initializer_list<std::string_view> label_values = {});
#include "core/base/telemetry/metrics.def"
}  // namespace metrics

}  // namespace uopd
