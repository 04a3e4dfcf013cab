// SPDX-License-Identifier: MIT
#include "tests/chaos/report.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>

namespace uopd::chaos {
namespace {

constexpr size_t kTexts = 20;  // kept for each kind of violation

// Enough digits for people.
double Short(double value) { return std::round(value * 1e3) / 1e3; }

}  // namespace

double Now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

double Percentile(std::vector<double> values, double p) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  return values[static_cast<size_t>(p * static_cast<double>(values.size() - 1) + 0.5)];
}

void Report::Count(std::string_view name, int64_t n) {
  MutexLock lock(mu_);
  counts_[std::string(name)] += n;
}

void Report::Sample(std::string_view name, double value) {
  MutexLock lock(mu_);
  samples_[std::string(name)].push_back(value);
}

void Report::Figure(std::string_view name, double value) {
  MutexLock lock(mu_);
  figures_[std::string(name)] = value;
}

void Report::Violation(std::string_view kind, const std::string& what) {
  MutexLock lock(mu_);
  Kind& known = violations_[std::string(kind)];
  ++known.count;
  if (known.texts.size() >= kTexts) return;
  known.texts.push_back(what);
  std::fprintf(stderr, "VIOLATION %.*s: %s\n", static_cast<int>(kind.size()), kind.data(),
               what.c_str());
}

int64_t Report::CountOf(std::string_view name) const {
  MutexLock lock(mu_);
  const auto found = counts_.find(name);
  return found == counts_.end() ? 0 : found->second;
}

int64_t Report::violations() const {
  MutexLock lock(mu_);
  int64_t out = 0;
  for (const auto& [_, kind] : violations_) out += kind.count;
  return out;
}

std::vector<double> Report::SamplesOf(std::string_view name) const {
  MutexLock lock(mu_);
  const auto found = samples_.find(name);
  return found == samples_.end() ? std::vector<double>() : found->second;
}

std::string Report::Json(std::string_view run, uint64_t seed) const {
  MutexLock lock(mu_);
  nlohmann::ordered_json out;
  out["run"] = std::string(run);
  out["seed"] = seed;
  int64_t broken = 0;
  out["violations"] = nlohmann::ordered_json::object();
  for (const auto& [name, kind] : violations_) {
    out["violations"][name] = kind.count;
    broken += kind.count;
  }
  out["passed"] = broken == 0;
  for (const auto& [name, value] : figures_) out["figures"][name] = Short(value);
  for (const auto& [name, values] : samples_) {
    out["samples"][name] = {{"n", values.size()},
                            {"p50", Short(Percentile(values, 0.5))},
                            {"p99", Short(Percentile(values, 0.99))},
                            {"max", Short(Percentile(values, 1))}};
  }
  for (const auto& [name, count] : counts_) out["counts"][name] = count;
  return out.dump();
}

}  // namespace uopd::chaos
