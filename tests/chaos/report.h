// SPDX-License-Identifier: MIT
// The results of a run: counts, samples of times, and violations of what the daemon promises.
//
// Thread-safe. A run passes when it has no violation.
#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/mutex.h"

namespace uopd::chaos {

// Seconds of a monotonic clock.
double Now();

double Percentile(std::vector<double> values, double p);  // p in [0, 1]; 0 if there are no values

class Report {
 public:
  void Count(std::string_view name, int64_t n = 1) UOPD_EXCLUDES(mu_);
  void Sample(std::string_view name, double value) UOPD_EXCLUDES(mu_);
  // Sets a figure that is measured only once.
  void Figure(std::string_view name, double value) UOPD_EXCLUDES(mu_);
  // Counts a broken promise. The first texts of every kind are kept, and printed at once.
  void Violation(std::string_view kind, const std::string& what) UOPD_EXCLUDES(mu_);

  int64_t CountOf(std::string_view name) const UOPD_EXCLUDES(mu_);
  int64_t violations() const UOPD_EXCLUDES(mu_);
  std::vector<double> SamplesOf(std::string_view name) const UOPD_EXCLUDES(mu_);

  // One line of JSON: {"seed": .., "counts": {..}, "samples": {name: {n, p50, p99, max}}, ..}.
  std::string Json(std::string_view run, uint64_t seed) const UOPD_EXCLUDES(mu_);

 private:
  struct Kind {
    int64_t count = 0;
    std::vector<std::string> texts;
  };
  mutable Mutex mu_;
  std::map<std::string, int64_t, std::less<>> counts_ UOPD_GUARDED_BY(mu_);
  std::map<std::string, std::vector<double>, std::less<>> samples_ UOPD_GUARDED_BY(mu_);
  std::map<std::string, double, std::less<>> figures_ UOPD_GUARDED_BY(mu_);
  std::map<std::string, Kind, std::less<>> violations_ UOPD_GUARDED_BY(mu_);
};

}  // namespace uopd::chaos
