// SPDX-License-Identifier: MIT
// The time of single operations beside the best of the libraries that users compare with. Both run
// in this process on the same number of threads, one after the other by turns. uopd's side is the
// whole program: all its kernels and what happens between them.
#include <sched.h>
#include <unistd.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <map>

#include "core/base/text.h"
#include "devices/cpu/cpu_device.h"
#include "tests/perf/peers/peers.h"
#include "tests/perf/perf.h"
#include "tests/perf/program.h"
#include "tests/perf/works.h"
#include "uopd/client.h"
#include "uopd/executor.h"

namespace uopd::perf::kernels_perf {
namespace {

using client::Client;
using client::Tensor;

// Binds this thread, as thread 0 of all sides, to the first processor: peers bind their other
// threads (peers.cc). Threads and processes of all sides exist by then, because new ones would
// inherit this.
class OnFirstProcessor {
 public:
  OnFirstProcessor() {
    if (sched_getaffinity(0, sizeof before_, &before_) != 0) return;
    int processor = 0;
    while (!CPU_ISSET(processor, &before_)) ++processor;
    cpu_set_t first;
    CPU_ZERO(&first);
    CPU_SET(processor, &first);
    bound_ = sched_setaffinity(0, sizeof first, &first) == 0;
  }
  ~OnFirstProcessor() {
    if (bound_) (void)sched_setaffinity(0, sizeof before_, &before_);
  }
  OnFirstProcessor(const OnFirstProcessor&) = delete;
  OnFirstProcessor& operator=(const OnFirstProcessor&) = delete;

 private:
  cpu_set_t before_;
  bool bound_ = false;
};

class Bench {
 public:
  absl::Status Measure(const Work& work, double seconds, std::vector<Measurement>& out) {
    UOPD_ASSIGN(const auto device, DeviceOf(work.threads));
    UOPD_ASSIGN(const client::Exported graph, GraphOf(work));
    UOPD_ASSIGN(const auto program, Program::Make(device, graph.graph, work.options));
    if (std::getenv("UOPD_SHOW_OPTS") != nullptr) UOPD_TRY(ShowSteps(*program));
    std::vector<PeerRun> runs;
    absl::Status failed;
    runs.push_back({"uopd", [&] { failed.Update(program->Run()); }});
    if (work.peers)
      for (PeerRun& p : work.peers(work.threads)) runs.push_back(std::move(p));
    const OnFirstProcessor bound;
    std::vector<std::vector<double>> times(runs.size());
    const auto once = [&](size_t i) {
      if (runs[i].seconds) {
        const double seconds = runs[i].seconds();
        if (seconds < 0) failed.Update(absl::UnavailableError(Cat(runs[i].name, " fails")));
        return seconds;
      }
      const double start = NowSeconds();
      runs[i].run();
      return NowSeconds() - start;
    };
    for (size_t i = 0; i < runs.size(); ++i) (void)once(i);
    // Several runs of one side together: what it left in the caches is its own. In the pause
    // the threads of the side before stop spinning: those of OpenBLAS do after 2^26 clock ticks.
    const double about = once(0);
    const int together = std::clamp(static_cast<int>(2e-2 / std::max(about, 1e-6)), 1, 64);
    for (const double until = NowSeconds() + seconds;
         times[0].size() < 3 || NowSeconds() < until;) {
      for (size_t i = 0; i < runs.size(); ++i) {
        usleep(40000);
        (void)once(i);
        for (int k = 0; k < together; ++k) times[i].push_back(once(i));
      }
    }
    UOPD_TRY(failed);
    Measurement m{Cat(work.group, ".", work.name), work.unit, Rate(work, times[0])};
    for (size_t i = 1; i < runs.size(); ++i) {
      const double rate = Rate(work, times[i]);
      if (rate > m.peer) m.peer = rate, m.peer_name = runs[i].name;
    }
    out.push_back(std::move(m));
    return absl::OkStatus();
  }

 private:
  static absl::StatusOr<client::Exported> GraphOf(const Work& work) {
    if (work.graph) return work.graph();
    Client client(std::make_shared<client::OfflineExecutor>());
    const Tensor result = work.build(client);
    UOPD_TRY(result.status());
    return client::Export(std::span(&result, 1));
  }

  static double Rate(const Work& work, const std::vector<double>& seconds) {
    return work.amount / Percentile(seconds, 0.5) / 1e9;
  }

  static absl::Status ShowSteps(Program& program) {
    UOPD_TRY(program.Run());
    constexpr int kRuns = 9;
    std::vector<std::vector<double>> runs(program.steps().size());
    for (int n = 0; n < kRuns; ++n) {
      UOPD_ASSIGN(const std::vector<double> seconds, program.RunTimed());
      for (size_t i = 0; i < seconds.size(); ++i) runs[i].push_back(seconds[i]);
    }
    double all = 0;
    for (size_t i = 0; i < runs.size(); ++i) {
      const double seconds = Percentile(runs[i], 0.5);
      all += seconds;
      const Program::Step& step = program.steps()[i];
      std::string opts;
      for (const codegen::Opt& opt : step.kernel.opts) Append(opts, " ", Text(opt));
      std::fprintf(stderr, "  %s:%s\n    %.1f us, codegen %.1f ms, LLVM %.1f ms\n",
                   step.kernel.name.c_str(), opts.c_str(), 1e6 * seconds,
                   1e3 * step.codegen_seconds, 1e3 * step.compile_seconds);
      if (const char* folder = std::getenv("UOPD_KEEP_TEXT")) {
        if (FILE* f = std::fopen(Cat(folder, "/", step.kernel.name, ".ll").c_str(), "w")) {
          std::fwrite(step.text.data(), 1, step.text.size(), f);
          std::fclose(f);
        }
      }
    }
    std::fprintf(stderr, "  all kernels: %.1f us\n", 1e6 * all);
    return absl::OkStatus();
  }

  absl::StatusOr<std::shared_ptr<devices::cpu::CpuDevice>> DeviceOf(int threads) {
    for (int n = 1; n <= 2 && devices_.size() < 2; ++n) {
      UOPD_ASSIGN(devices_[n], devices::cpu::CpuDevice::Open({.threads = n}));
    }
    return devices_.at(threads);
  }
  std::map<int, std::shared_ptr<devices::cpu::CpuDevice>> devices_;
};

absl::StatusOr<std::vector<Measurement>> Run(const Options& options) {
  Bench bench;
  std::vector<Measurement> out;
  std::map<std::string, std::pair<double, int>> logs;  // by family
  for (const Work& work : AllWorks()) {
    const std::string name = Cat(work.group, ".", work.name);
    if (!name.starts_with(options.model)) continue;
    UOPD_TRY(WithFrame(bench.Measure(work, options.scale, out), Cat("measuring ", name)));
    if (out.back().peer > 0) {
      auto& [sum, count] = logs[work.family.empty() ? work.group : work.family];
      sum += std::log(out.back().value / out.back().peer);
      ++count;
    }
  }
  if (out.empty()) return absl::InvalidArgumentError(Cat("no work begins with ", options.model));
  for (const auto& [family, mean] : logs)
    out.push_back({Cat(family, ".geometric_mean"), "ratio", std::exp(mean.first / mean.second)});
  return out;
}

const Register kRegister(
    "kernels",
    "single operations beside OpenBLAS, oneDNN, ONNX Runtime, NumPy and plain loops: "
    "--model BEGINNING-OF-A-NAME",
    Run);

}  // namespace
}  // namespace uopd::perf::kernels_perf
