// SPDX-License-Identifier: MIT
// uopd-perf: benchmarks, each with its peer in the same run. A new one is a file in tests/perf with
// a Register object.
#pragma once
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "core/base/status.h"

namespace uopd::perf {

// One figure and what it is compared with; ratio = value / peer. A peer of 0 means that there is
// none.
struct Measurement {
  std::string name, unit;
  double value = 0;
  std::string peer_name;
  double peer = 0;
};

struct Options {
  std::string address;  // of a running daemon; empty: the benchmark starts one from `daemon`
  std::string daemon;   // path of uopd
  double scale = 1;     // of the amount of work
  std::string model;    // of benchmarks with several; empty: all
  std::string device;   // of benchmarks that take one, as the registry names it; empty: CPU
  int64_t layers = 0;   // of models that have them; 0: as they are known
  // Shows a figure at once. A benchmark that takes minutes uses it in place of its result.
  std::function<void(const Measurement&)> report;
};

using Benchmark = std::function<absl::StatusOr<std::vector<Measurement>>(const Options&)>;

struct Entry {
  std::string name, doc;
  Benchmark run;
};
std::vector<Entry>& Benchmarks();

struct Register {
  Register(std::string name, std::string doc, Benchmark run) {
    Benchmarks().push_back({std::move(name), std::move(doc), std::move(run)});
  }
};

double NowSeconds();
double Percentile(std::vector<double> values, double p);  // p in [0, 1]
// The percentile of models beside libraries whose threads are not bound to processors: Linux leaves
// two of them on one processor in some runs, which would be noise and not their speed.
inline constexpr double kQuartile = 0.25;
double ResidentMiB();  // of this process

// Runs a and b alternately so that noise hits both, and returns the seconds of every run.
struct Paired {
  std::vector<double> a, b;
};
Paired RunPaired(int rounds, const std::function<void()>& a, const std::function<void()>& b);

}  // namespace uopd::perf
