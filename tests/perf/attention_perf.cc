// SPDX-License-Identifier: MIT
// Attention as one kernel that stages its scores, and as the kernels that it is without: scores,
// softmax, product. On the CPU of this machine, by its own code generator; no daemon.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>

#include "core/base/text.h"
#include "core/codegen/codegen.h"
#include "core/render/formats.h"
#include "devices/cpu/cpu_device.h"
#include "tests/perf/perf.h"
#include "tests/support/attention_kernel.h"

namespace uopd::perf::attention_perf {
namespace {

using tests::AttentionShape;

// A kernel with its buffers bound.
struct Launch {
  std::shared_ptr<devices::Executable> executable;
  codegen::LoweredKernel kernel;
  std::vector<devices::BufferArg> args;
  std::vector<int64_t> variables;
};

class Bench {
 public:
  explicit Bench(std::shared_ptr<devices::cpu::CpuDevice> device)
      : device_(std::move(device)), stream_(device_->NewStream().value()) {}

  absl::StatusOr<devices::BufferArg> Buffer(int64_t elements) {
    UOPD_ASSIGN(auto buffer,
                device_->Allocate(4 * static_cast<size_t>(elements), devices::MemoryKind::kDevice));
    std::vector<float> values;
    for (int64_t i = 0; i < elements; ++i)
      values.push_back(static_cast<float>((i * 7919) % 2003) / 1000 - 1);
    UOPD_TRY(stream_->CopyIn(std::as_bytes(std::span(values)), *buffer, 0));
    buffers_.push_back(std::move(buffer));
    return devices::BufferArg{buffers_.back().get(), 0};
  }

  absl::StatusOr<Launch> Prepare(ir::UOp (*make)(ir::UOpContext&, const AttentionShape&),
                                 const AttentionShape& shape,
                                 std::vector<devices::BufferArg> args) {
    const Target& target = device_->target();
    ir::UOpContext ctx;
    Launch out;
    UOPD_ASSIGN(out.kernel, codegen::Lower(ctx, make(ctx, shape), target, {}));
    UOPD_ASSIGN(
        const std::string text,
        render::RenderLlvmIr(ctx, out.kernel.linear, out.kernel.name, out.kernel.variables));
    UOPD_ASSIGN(out.executable, device_->Load({CodeFormat::kLlvmIr,
                                               out.kernel.name,
                                               text,
                                               {static_cast<int>(args.size()),
                                                static_cast<int>(out.kernel.variables.size())}}));
    out.args = std::move(args);
    out.variables.assign(out.kernel.variables.size(), shape.keys);
    return out;
  }

  double Seconds(std::span<const Launch> launches, int times) {
    const double start = NowSeconds();
    for (int i = 0; i < times; ++i) {
      for (const Launch& l : launches) {
        (void)stream_->Launch(*l.executable, l.kernel.launch.At(l.variables), l.args, l.variables);
      }
    }
    (void)stream_->Synchronize();
    return (NowSeconds() - start) / times;
  }

 private:
  std::shared_ptr<devices::cpu::CpuDevice> device_;
  std::unique_ptr<devices::Stream> stream_;
  std::vector<std::shared_ptr<devices::Buffer>> buffers_;
};

absl::Status Measure(const std::string& name, const AttentionShape& s, double scale,
                     std::vector<Measurement>& out) {
  UOPD_ASSIGN(auto device, devices::cpu::CpuDevice::Open({}));
  Bench bench(device);
  const int64_t rows = s.heads * s.queries * s.depth, keys = s.heads * s.keys * s.depth,
                scores = s.heads * s.queries * s.keys;
  UOPD_ASSIGN(const auto q, bench.Buffer(rows));
  UOPD_ASSIGN(const auto k, bench.Buffer(keys));
  UOPD_ASSIGN(const auto v, bench.Buffer(keys));
  UOPD_ASSIGN(const auto o, bench.Buffer(rows));
  UOPD_ASSIGN(const auto x, bench.Buffer(scores));
  UOPD_ASSIGN(const auto y, bench.Buffer(scores));
  std::vector<Launch> one, three;
  UOPD_ASSIGN(auto whole, bench.Prepare(tests::AttentionKernel, s, {o, q, k, v}));
  one.push_back(std::move(whole));
  UOPD_ASSIGN(auto first, bench.Prepare(tests::ScoresKernel, s, {x, q, k}));
  three.push_back(std::move(first));
  UOPD_ASSIGN(auto second, bench.Prepare(tests::SoftmaxKernel, s, {y, x}));
  three.push_back(std::move(second));
  UOPD_ASSIGN(auto third, bench.Prepare(tests::ProductKernel, s, {o, y, v}));
  three.push_back(std::move(third));
  const double flops = 4.0 * static_cast<double>(scores * s.depth);
  const double about = bench.Seconds(three, 1);
  const int times = std::max(1, static_cast<int>(5e-4 / std::max(about, 1e-6)));
  // The best of many short runs: other work on the machine only ever adds.
  double fast = INFINITY, slow = INFINITY;
  for (const double until = NowSeconds() + scale; NowSeconds() < until || std::isinf(slow);) {
    fast = std::min(fast, bench.Seconds(one, times));
    slow = std::min(slow, bench.Seconds(three, times));
  }
  out.push_back({Cat("attention.", name, ".rate"), "GFLOP/s", flops / fast / 1e9, "three kernels",
                 flops / slow / 1e9});
  out.push_back({Cat("attention.", name, ".time"), "us", fast * 1e6, "three kernels", slow * 1e6});
  if (std::getenv("UOPD_SHOW_OPTS") != nullptr) {
    for (const auto* list : {&one, &three}) {
      for (const Launch& l : *list) {
        std::string opts;
        for (const codegen::Opt& opt : l.kernel.opts) Append(opts, " ", Text(opt));
        std::fprintf(stderr, "%s%s: %.1f us\n", l.kernel.name.c_str(), opts.c_str(),
                     1e6 * bench.Seconds(std::span(&l, 1), times));
      }
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<Measurement>> Run(const Options& options) {
  const std::pair<std::string, AttentionShape> kShapes[] = {
      {"small", {8, 32, 32, 32}},
      {"square", {8, 128, 128, 64}},
      {"long", {8, 512, 512, 64}},
      {"decode", {32, 1, 1024, 64}},
      {"cache", {32, 1, 1000, 64, ir::Dtype::F32, false, true}},
      {"decode128", {8, 1, 512, 128}},
      {"odd", {6, 50, 77, 40}},
      {"tiny", {8, 16, 16, 16}},
      {"clip", {12, 77, 77, 64}},
      {"vit", {12, 197, 197, 64}},
      {"prime", {8, 127, 131, 64}},
      {"prime32", {8, 31, 37, 32}},
      {"wide", {4, 128, 128, 128}},
      {"chunk", {8, 64, 1024, 64}},
      {"far", {2, 64, 8192, 64}},
  };
  std::vector<Measurement> out;
  for (const auto& [name, shape] : kShapes) {
    if (!options.model.empty() && name != options.model) continue;
    AttentionShape divided = shape;
    divided.divided = true;  // as the graphs of clients say it
    UOPD_TRY(WithFrame(Measure(name, divided, options.scale, out), Cat("measuring ", name)));
  }
  if (out.empty()) return absl::InvalidArgumentError(Cat("no shape is called ", options.model));
  return out;
}

const Register kRegister(
    "attention",
    "attention as one kernel and as three: --model "
    "small|square|long|decode|cache|decode128|odd|tiny|clip|vit|prime|prime32|wide|chunk|far",
    Run);

}  // namespace
}  // namespace uopd::perf::attention_perf
