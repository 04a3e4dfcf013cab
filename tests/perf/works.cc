// SPDX-License-Identifier: MIT
#include "tests/perf/works.h"

#include "core/base/text.h"
#include "tests/perf/models.h"
#include "tests/perf/models/networks.h"
#include "tests/perf/peers/gather_peer.h"
#include "tests/perf/peers/peer_process.h"
#include "tests/perf/peers/process_peer.h"
#include "tests/perf/peers/stream_peer.h"
#include "uopd/functional.h"

namespace uopd::perf {
namespace {

using client::Client;
using client::Dims;
using client::Dtype;
using client::Tensor;

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
    for (const char* form : {"graph", "Attention", "MultiHeadAttention", "XLA"}) {
      const bool xla = form == std::string_view("XLA");
      runs.push_back(ProcessPeer(xla ? form : Cat("ONNX Runtime, ", form),
                                 PeerProcess::Python::kPeers,
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
  gather.options.integers_below = kRows;
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
    for (const bool bf16 : {false, true}) {
      out.push_back({"model", Cat("kept.", network.name, bf16 ? ".bf16" : ""), 2, 1e9, "runs/s"});
      out.back().options.kept = true;
      if (bf16) out.back().options.rounds = {DtypeNumber::BF16};
      out.back().build = [make = network.make](Client& c) { return make(c).run(); };
    }
  }
  return out;
}

}  // namespace

std::vector<Work> AllWorks() {
  std::vector<Work> out;
  for (auto* list : {&MatMuls, &Convolutions, &Attentions, &Rows, &DataMovement, &WholeModels})
    for (Work& w : list()) out.push_back(std::move(w));
  return out;
}

}  // namespace uopd::perf
