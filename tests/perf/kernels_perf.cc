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

#include "client/cpp/client.h"
#include "client/cpp/executor.h"
#include "client/cpp/functional.h"
#include "core/base/text.h"
#include "tests/perf/models.h"
#include "tests/perf/models/networks.h"
#include "tests/perf/peers/gather_peer.h"
#include "tests/perf/peers/peer_process.h"
#include "tests/perf/peers/peers.h"
#include "tests/perf/peers/process_peer.h"
#include "tests/perf/peers/stream_peer.h"
#include "tests/perf/perf.h"
#include "tests/perf/program.h"

namespace uopd::perf {
namespace {

using client::Client;
using client::Dims;
using client::Dtype;
using client::Tensor;

struct Work {
  std::string group, name;
  int threads = 2;
  double amount = 0;  // of `unit`, in one run
  std::string unit = "GFLOP/s";
  std::function<Tensor(Client&)> build;
  std::function<absl::StatusOr<client::Exported>()> graph;  // instead of build
  std::function<std::vector<PeerRun>(int threads)> peers;
  int64_t integers_below = 0;  // see Program::Make
  std::string family = {};     // whose ratios have one mean; empty: the group
  bool kept = false;           // Program::MakeKept
};

Work MatMul(const std::string& name, const MatMulShape& s, int threads = 2) {
  Work out{"matmul", name, threads, 2.0 * static_cast<double>(s.batch * s.m * s.n * s.k),
           {},       {},   {}};
  out.unit = "GFLOP/s";
  out.build = [s](Client& c) {
    const auto stored = [&](int64_t x, int64_t y, bool transposed) {
      const Dtype d = s.dtype == "f32" ? Dtype::F32 : s.dtype == "bf16" ? Dtype::BF16 : Dtype::I8;
      Dims dims = transposed ? Dims{y, x} : Dims{x, y};
      if (s.batch > 1) dims.insert(dims.begin(), s.batch);
      const Tensor t = c.Empty(dims, d);
      return transposed ? t.Transpose(-1, -2) : t;
    };
    const Tensor a = stored(s.m, s.k, s.transpose_a), b = stored(s.k, s.n, s.transpose_b);
    if (s.dtype == "f32") return a.MatMul(b);
    const Dtype sum = s.dtype == "i8" ? Dtype::I32 : Dtype::F32;
    return a.Cast(sum).MatMul(b.Cast(sum));
  };
  out.peers = [s](int threads) { return MatMulPeers(s, threads); };
  out.family = s.dtype == "f32" ? "matmul.f32" : "matmul.narrow";
  return out;
}

Work Conv(const std::string& name, const ConvShape& s, int threads = 2) {
  Work out{s.groups == 1 ? "conv" : "depthwise", name, threads, s.flops()};
  out.unit = "GFLOP/s";
  out.build = [s](Client& c) {
    client::fn::ConvOptions options;
    options.stride = {s.stride};
    options.padding = {s.padding};
    options.groups = s.groups;
    return client::fn::Conv(c.Empty({s.batch, s.in, s.size, s.size}),
                            c.Empty({s.out, s.in / s.groups, s.kernel, s.kernel}), {}, options);
  };
  out.peers = [s](int threads) { return ConvPeers(s, threads); };
  out.family = "conv";
  return out;
}

std::vector<Work> MatMuls() {
  std::vector<Work> out;
  for (int threads : {1, 2}) {
    const std::string end = threads == 1 ? ".1t" : "";
    for (int64_t n : {256, 512, 1000, 1024, 2048})
      out.push_back(MatMul(Cat("f32.", n, end), {n, n, n}, threads));
    for (int64_t n : {512, 1024}) {
      out.push_back(MatMul(Cat("f32.nt.", n, end), {n, n, n, 1, false, true}, threads));
      out.push_back(MatMul(Cat("f32.tn.", n, end), {n, n, n, 1, true, false}, threads));
    }
  }
  for (int64_t m : {1, 8, 32}) out.push_back(MatMul(Cat("f32.rows.", m), {m, 4096, 4096}));
  for (const char* dtype : {"bf16", "i8"}) {
    for (int64_t n : {512, 1024, 2048})
      out.push_back(MatMul(Cat(dtype, ".", n), {n, n, n, 1, false, false, dtype}));
  }
  return out;
}

// Every distinct convolution of ResNet-50.
std::vector<Work> Convolutions() {
  std::vector<Work> out;
  for (int64_t b : {1, 8}) {
    const auto add = [&](int64_t in, int64_t channels, int64_t size, int64_t kernel,
                         int64_t stride) {
      out.push_back(Conv(Cat("b", b, ".", kernel, "x", kernel, stride > 1 ? "s2" : "", ".", in, "-",
                             channels, ".", size),
                         {b, in, channels, size, kernel, stride, kernel / 2, 1}));
    };
    add(3, 64, 224, 7, 2);
    int64_t in = 64, size = 56;
    for (int64_t width : {64, 128, 256, 512}) {
      const int64_t stride = width == 64 ? 1 : 2;
      add(in, width, size, 1, 1);
      add(in, 4 * width, size, 1, stride);
      add(width, width, size, 3, stride);
      size /= stride;
      if (stride > 1) add(width, width, size, 3, 1);
      if (width > 64) add(width, 4 * width, size, 1, 1);
      add(4 * width, width, size, 1, 1);
      in = 4 * width;
    }
    for (int64_t channels : {32, 96, 384})
      out.push_back(Conv(Cat("b", b, ".3x3.", channels, ".", 3584 / channels),
                         {b, channels, channels, 3584 / channels, 3, 1, 1, channels}));
  }
  return out;
}

std::vector<Work> Rows() {
  std::vector<Work> out;
  // `reads` and `writes`: arrays that the operation needs to move.
  const auto add = [&](const char* name, int reads, int writes,
                       std::function<Tensor(Client&)> build,
                       std::function<std::vector<PeerRun>(int)> library = {}) {
    const int64_t n = 1 << 24;
    Work work{"memory", name, 2, 4.0 * (reads + writes) * n, "GB/s"};
    work.build = std::move(build);
    work.peers = [=](int threads) {
      std::vector<PeerRun> runs = StreamPeers(reads, writes, n, threads);
      if (library)
        for (PeerRun& run : library(threads)) runs.push_back(std::move(run));
      return runs;
    };
    out.push_back(std::move(work));
  };
  const auto input = [](Client& c) { return c.Empty({4096, 4096}); };
  add(
      "softmax", 1, 1, [=](Client& c) { return input(c).Softmax(); },
      [](int t) { return SoftmaxPeers(4096, 4096, t); });
  add(
      "layernorm", 1, 1, [=](Client& c) { return client::fn::LayerNorm(input(c), {}, {}); },
      [](int t) { return LayerNormPeers(4096, 4096, t); });
  add("rmsnorm", 1, 1, [=](Client& c) { return client::fn::RmsNorm(input(c), {}); });
  add("add", 2, 1, [=](Client& c) { return input(c) + input(c); });
  add("exp", 1, 1, [=](Client& c) { return input(c).Exp(); });
  add("sum", 1, 0, [=](Client& c) { return c.Empty({1 << 24}).Sum(); });
  add("transpose", 1, 1, [=](Client& c) { return input(c).Transpose(0, 1).Contiguous(); });
  add("cumsum", 1, 1, [=](Client& c) { return c.Empty({1 << 24}).CumSum(); });
  add("argmax", 1, 0, [=](Client& c) { return input(c).Argmax(); });
  return out;
}

Work Attention(const std::string& name, const AttentionWork& s) {
  Work out{"attention", name, 2, s.flops()};
  out.build = [s](Client& c) {
    const Tensor q = c.Empty({s.heads, s.queries, s.depth}),
                 k = c.Empty({s.heads, s.keys, s.depth}), v = c.Empty({s.heads, s.keys, s.depth});
    return client::fn::Attention(q, k, v, {}, {.causal = s.causal});
  };
  out.peers = [s](int threads) {
    std::vector<PeerRun> runs = AttentionPeers(s, threads);
    for (const char* form : {"graph", "Attention", "MultiHeadAttention"}) {
      runs.push_back(ProcessPeer(Cat("ONNX Runtime, ", form), PeerProcess::Python::kPeers,
                                 Cat("attention ", form, " ", s.heads, " ", s.queries, " ", s.keys,
                                     " ", s.depth, " ", s.causal ? 1 : 0)));
    }
    return runs;
  };
  return out;
}

std::vector<Work> Attentions() {
  return {Attention("12x512x512x64", {12, 512, 512, 64}),
          Attention("32x1x1024x64", {32, 1, 1024, 64}),
          Attention("8x2048x2048x64.causal", {8, 2048, 2048, 64, true})};
}

// A million rows of 64 floats, and a million numbers.
std::vector<Work> DataMovement() {
  constexpr int64_t kRows = 1 << 20, kColumns = 64;
  Work gather{"gather", "1M", 2, 8.0 * kRows * kColumns, "GB/s"};
  gather.integers_below = kRows;
  gather.build = [](Client& c) {
    return c.Empty({kRows, kColumns}).IndexSelect(0, c.Empty({kRows}, Dtype::I32));
  };
  gather.peers = [](int threads) { return GatherPeers(kRows, kColumns, threads); };
  Work sort{"sort", "1M", 2, 1e3 * kRows, "Mnumbers/s"};
  sort.build = [](Client& c) { return c.Empty({kRows}).Sort().first; };
  sort.peers = [=](int) {
    return std::vector<PeerRun>{
        ProcessPeer("NumPy", PeerProcess::Python::kDistribution, Cat("sort ", kRows))};
  };
  return {gather, sort};
}

// Whole models without a daemon, to see which kernels take their time (UOPD_SHOW_OPTS=1).
std::vector<Work> WholeModels() {
  std::vector<Work> out;
  for (const Model& model : Models(0)) {
    if (model.name != "resnet50" && model.name != "train" && model.name != "mlp-adam") continue;
    out.push_back({"model", model.name, 2, 1e9, "runs/s"});
    out.back().graph = model.build;
  }
  for (const NetworkEntry& network : Networks()) {
    out.push_back({"model", Cat("kept.", network.name), 2, 1e9, "runs/s"});
    out.back().kept = true;
    out.back().build = [make = network.make](Client& c) { return make(c).run(); };
  }
  return out;
}

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
    UOPD_ASSIGN(const auto program, work.kept
                                        ? Program::MakeKept(device, graph.graph)
                                        : Program::Make(device, graph.graph, work.integers_below));
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
      for (const codegen::Opt& opt : step.kernel.applied) Append(opts, " ", Text(opt));
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
  std::vector<Work> all;
  for (auto* list : {&MatMuls, &Convolutions, &Attentions, &Rows, &DataMovement, &WholeModels})
    for (Work& w : list()) all.push_back(std::move(w));
  Bench bench;
  std::vector<Measurement> out;
  std::map<std::string, std::pair<double, int>> logs;  // by family
  for (const Work& work : all) {
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
}  // namespace uopd::perf
