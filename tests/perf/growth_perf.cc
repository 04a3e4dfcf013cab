// SPDX-License-Identifier: MIT
// How scheduling grows with its graph: every structure of tests/support/repeated_graphs.h, doubled
// until it has 10^5 nodes (times --scale). Each size runs in a process of its own, which measures
// the CPU time and the memory that scheduling alone takes, and is given kMostSeconds.
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <ctime>
#include <optional>

#include "core/base/text.h"
#include "core/ir/graph.h"
#include "core/ir/verify/spec.h"
#include "core/schedule/schedule.h"
#include "tests/perf/perf.h"
#include "tests/support/repeated_graphs.h"

namespace uopd::perf::growth_perf {
namespace {

constexpr double kNodes = 1e5;
constexpr unsigned kMostSeconds = 15;
constexpr int kRounds = 3, kMoreRounds = 12;
constexpr double kMost = 2.3;  // of the cost of half the graph

struct Cost {
  double nodes = 0, seconds = 0, mib = 0, kernels = 0;
  char error[200] = "";
};

double CpuSeconds() {
  timespec t{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

double PeakMiB() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_maxrss) / 1024;
}

Cost Schedule(const test::Repeated& graph, int n) {
  Cost cost;
  ir::UOpContext ctx;
  const ir::UOp sink = graph.build(ctx, n);
  cost.nodes = static_cast<double>(ir::Toposort(ctx, sink).size());
  if (const absl::Status s = ir::Verify(ctx, sink, ir::Level::kTensor); !s.ok()) {
    std::snprintf(cost.error, sizeof(cost.error), "%s", StatusText(s).c_str());
    return cost;
  }
  const double memory = PeakMiB(), start = CpuSeconds();
  const auto schedule = schedule::MakeSchedule(ctx, sink, {});
  cost.seconds = CpuSeconds() - start, cost.mib = PeakMiB() - memory;
  if (schedule.ok())
    cost.kernels = static_cast<double>(schedule->items.size());
  else
    std::snprintf(cost.error, sizeof(cost.error), "%s", StatusText(schedule.status()).c_str());
  return cost;
}

// In a child. Null: it took over kMostSeconds.
std::optional<Cost> InChild(const test::Repeated& graph, int n) {
  int ends[2];
  if (pipe(ends) != 0) return std::nullopt;
  const pid_t child = fork();
  if (child == 0) {
    alarm(kMostSeconds);
    const Cost cost = Schedule(graph, n);
    const bool sent = write(ends[1], &cost, sizeof(cost)) == sizeof(cost);
    _exit(sent ? 0 : 1);
  }
  close(ends[1]);
  Cost cost;
  const bool got = read(ends[0], &cost, sizeof(cost)) == sizeof(cost);
  close(ends[0]);
  int status = 0;
  waitpid(child, &status, 0);
  return got ? std::optional(cost) : std::nullopt;
}

struct Size {
  int n = 0;
  Cost cost;  // the least of all rounds
};

// A doubling that looks dear is measured again, both sizes by turns and always as often, whatever
// comes out: other work on the machine only ever adds, so the least of many rounds counts.
double TimeOfTwice(const test::Repeated& graph, Size& once, Size& twice) {
  const double nodes = twice.cost.nodes / once.cost.nodes;
  const auto ratio = [&] { return twice.cost.seconds / once.cost.seconds / nodes * 2; };
  if (ratio() <= kMost) return ratio();
  for (int round = 0; round < kMoreRounds; ++round) {
    for (Size* size : {&twice, &once}) {
      const auto cost = InChild(graph, size->n);
      if (cost && cost->error[0] == 0)
        size->cost.seconds = std::min(size->cost.seconds, cost->seconds);
    }
  }
  return ratio();
}

absl::StatusOr<std::vector<Measurement>> Run(const Options& options) {
  std::vector<Measurement> out;
  for (const test::Repeated& graph : test::RepeatedGraphs()) {
    if (!options.model.empty() && graph.name.find(options.model) == std::string_view::npos)
      continue;
    std::vector<Size> sizes;
    std::string error;
    for (int n = 64; error.empty(); n *= 2) {
      std::optional<Cost> best;
      for (int round = 0; round < kRounds; ++round) {
        const auto cost = InChild(graph, n);
        if (!cost) error = Cat("takes over ", kMostSeconds, " s or dies at n = ", n);
        if (cost && cost->error[0] != 0) error = cost->error;
        if (!error.empty()) break;
        if (!best || cost->seconds < best->seconds) best = cost;
        if (cost->seconds > 2) break;
      }
      if (!error.empty() || best->nodes > kNodes * options.scale) break;
      sizes.push_back({n, *best});
    }
    double worst_time = 0, worst_memory = 0;
    int worst_n = 0;
    for (size_t i = 1; i < sizes.size(); ++i) {
      Size &once = sizes[i - 1], &twice = sizes[i];
      // What is over in an instant says nothing.
      if (once.cost.seconds < 0.001 || twice.cost.seconds < 0.01) continue;
      const double nodes = twice.cost.nodes / once.cost.nodes;
      const double time = TimeOfTwice(graph, once, twice);
      if (time > worst_time) worst_time = time, worst_n = twice.n;
      if (twice.cost.mib > 8)
        worst_memory =
            std::max(worst_memory, twice.cost.mib / std::max(1.0, once.cost.mib) / nodes * 2);
    }
    const Cost last = sizes.empty() ? Cost{} : sizes.back().cost;
    auto add = [&](const char* what, const char* unit, double value, const char* peer, double of) {
      out.push_back({Cat("growth.", graph.name, ".", what), unit, value, peer, of});
    };
    if (!error.empty())
      std::fprintf(stderr, "%s: %s\n", std::string(graph.name).c_str(), error.c_str());
    add("time_of_twice", "x", worst_time, "most", kMost);
    add("memory_of_twice", "x", worst_memory, "most", kMost);
    add("us_per_node", "us", 1e6 * last.seconds / std::max(1.0, last.nodes), "", 0);
    add("bytes_per_node", "bytes", last.mib * (1 << 20) / std::max(1.0, last.nodes), "", 0);
    add("nodes", "nodes", last.nodes, "", 0);
    add("kernels", "kernels", last.kernels, "", 0);
    std::fprintf(stderr,
                 "%-32s time x %.2f at n = %d memory x %.2f  %8.0f nodes %8.0f items %7.2f us/node "
                 "%8.0f B/node\n",
                 std::string(graph.name).c_str(), worst_time, worst_n, worst_memory, last.nodes,
                 last.kernels, 1e6 * last.seconds / std::max(1.0, last.nodes),
                 last.mib * (1 << 20) / std::max(1.0, last.nodes));
  }
  return out;
}

const Register kRegister("growth",
                         "cost of scheduling repeated structures, doubled up to 10^5 nodes: "
                         "--model NAME, --scale X of the nodes",
                         Run);

}  // namespace
}  // namespace uopd::perf::growth_perf
