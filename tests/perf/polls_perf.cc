// SPDX-License-Identifier: MIT
// What it costs that long kernels can be stopped: every kernel of some usual work that has polls
// (core/codegen/passes/polls.h), and the same kernel without them. On the CPU of this machine; no
// daemon.
#include <cmath>

#include "core/base/text.h"
#include "core/codegen/codegen.h"
#include "core/ir/graph.h"
#include "core/ir/io/wire.h"
#include "core/render/formats.h"
#include "core/schedule/schedule.h"
#include "devices/cpu/cpu_device.h"
#include "tests/perf/perf.h"
#include "tests/support/model_graphs.h"

namespace uopd::perf::polls_perf {
namespace {

using test::GraphBuilder;

struct Work {
  const char* name;
  ir::UOp (*build)(GraphBuilder& graph);
};

constexpr Work kWork[] = {
    {"matmul_1024",
     [](GraphBuilder& g) { return g.MatMul(g.Input({1024, 1024}), g.Input({1024, 1024})); }},
    {"matmul_511",
     [](GraphBuilder& g) { return g.MatMul(g.Input({511, 511}), g.Input({511, 511})); }},
    {"conv_64",
     [](GraphBuilder& g) {
       return g.Conv2d(g.Input({4, 64, 56, 56}), g.Input({64, 64, 3, 3}), 1);
     }},
    {"softmax_4096", [](GraphBuilder& g) { return g.Softmax(g.Input({4096, 4096})); }},
    {"layernorm_4096", [](GraphBuilder& g) { return g.LayerNorm(g.Input({4096, 4096})); }},
    {"sum_64m", [](GraphBuilder& g) { return g.Sum(g.Input({1 << 26}), {0}); }},
    {"relu_32m", [](GraphBuilder& g) { return g.Relu(g.Input({1 << 25})); }},
    {"exp_16m", [](GraphBuilder& g) { return g.Exp(g.Input({1 << 24})); }},
    {"transpose_4096",
     [](GraphBuilder& g) { return g.Contiguous(g.Transpose(g.Input({4096, 4096}))); }},
    {"batchnorm_64", [](GraphBuilder& g) { return g.BatchNorm(g.Input({64, 64, 56, 56})); }},
};

// The program as it was before polls were added.
ir::UOp WithoutPolls(ir::UOpContext& ctx, ir::UOp linear) {
  ir::Substitution without_tags;
  for (ir::UOp u : linear.srcs()) {
    if (u.Is(ir::Op::RANGE) && u.tag() != 0)
      without_tags[u.id()] = ctx.Make(u.op(), u.dtype(), u.srcs(), u.arg());
  }
  return ir::Substitute(ctx, linear, without_tags);
}

class Bench {
 public:
  explicit Bench(std::shared_ptr<devices::cpu::CpuDevice> device)
      : device_(std::move(device)), stream_(device_->NewStream().value()) {}

  absl::Status Measure(const Work& work, double seconds, std::vector<Measurement>& out) {
    ir::UOpContext ctx;
    GraphBuilder graph(ctx);
    graph.Output(work.build(graph));
    schedule::Options options;
    options.limits = schedule::KernelLimits::Of(device_->target());
    UOPD_ASSIGN(const schedule::Schedule schedule,
                schedule::MakeSchedule(ctx, graph.Finish(), options));
    for (const schedule::Item& item : schedule.items) {
      if (item.kind == schedule::Item::kKernel)
        UOPD_TRY(MeasureKernel(work.name, item.graph, seconds, out));
    }
    return absl::OkStatus();
  }

 private:
  absl::Status MeasureKernel(const char* name, std::string_view graph, double seconds,
                             std::vector<Measurement>& out) {
    ir::UOpContext ctx;
    UOPD_ASSIGN(const ir::UOp root, ir::Decode(ctx, graph, ir::Level::kKernel));
    UOPD_ASSIGN(const codegen::LoweredKernel kernel,
                codegen::Lower(ctx, root, device_->target(), {}));
    if (!kernel.polls) return absl::OkStatus();
    std::vector<std::shared_ptr<devices::Buffer>> buffers;
    std::vector<devices::BufferArg> args;
    for (const codegen::BufferUse& use : kernel.buffers) {
      const size_t bytes = static_cast<size_t>(use.elements * ir::ByteSize(use.dtype));
      UOPD_ASSIGN(auto buffer, device_->Allocate(bytes, devices::MemoryKind::kDevice));
      UOPD_TRY(stream_->Fill(*buffer, 0, bytes, std::byte{0x3c}));  // 0.0115 as f32
      args.push_back({buffer.get(), 0});
      buffers.push_back(std::move(buffer));
    }
    UOPD_ASSIGN(const auto polls, Load(ctx, kernel, kernel.linear, args.size()));
    UOPD_ASSIGN(const auto without,
                Load(ctx, kernel, WithoutPolls(ctx, kernel.linear), args.size()));
    const auto flag = std::make_shared<devices::StopFlag>();
    const auto run = [&](devices::Executable& executable) -> absl::Status {
      UOPD_TRY(stream_->Launch(executable, kernel.launch.At({}), args, {}, nullptr, flag));
      return stream_->Synchronize();
    };
    UOPD_TRY(run(*polls));
    UOPD_TRY(run(*without));
    const auto time = [&](devices::Executable& executable) {
      const double start = NowSeconds();
      (void)run(executable);  // what has run once runs again
      return NowSeconds() - start;
    };
    // One after the other, each in front by turns: noise of the machine hits both.
    std::vector<double> with, peer;
    for (const double until = NowSeconds() + seconds; with.empty() || NowSeconds() < until;) {
      with.push_back(time(*polls));
      peer.push_back(time(*without));
      peer.push_back(time(*without));
      with.push_back(time(*polls));
    }
    out.push_back({Cat("polls.", name, ".", kernel.name), "ms", 1e3 * Percentile(with, 0.5),
                   "without polls", 1e3 * Percentile(peer, 0.5)});
    return absl::OkStatus();
  }

  absl::StatusOr<std::shared_ptr<devices::Executable>> Load(ir::UOpContext& ctx,
                                                            const codegen::LoweredKernel& kernel,
                                                            ir::UOp linear, size_t buffers) {
    UOPD_ASSIGN(const std::string text,
                render::RenderLlvmIr(ctx, linear, kernel.name, kernel.variables));
    return device_->Load({CodeFormat::kLlvmIr,
                          kernel.name,
                          text,
                          {static_cast<int>(buffers), static_cast<int>(kernel.variables.size())}});
  }

  std::shared_ptr<devices::cpu::CpuDevice> device_;
  std::unique_ptr<devices::Stream> stream_;
};

absl::StatusOr<std::vector<Measurement>> Run(const Options& options) {
  UOPD_ASSIGN(auto device, devices::cpu::CpuDevice::Open({}));
  Bench bench(std::move(device));
  std::vector<Measurement> out;
  bool known = false;
  for (const Work& work : kWork) {
    if (!options.model.empty() && options.model != work.name) continue;
    known = true;
    UOPD_TRY(WithFrame(bench.Measure(work, 5 * options.scale, out), Cat("measuring ", work.name)));
  }
  if (!known) return absl::InvalidArgumentError(Cat("no work is called ", options.model));
  if (out.empty())
    return absl::NotFoundError(Cat("no kernel of ", options.model, " is long enough here to poll"));
  double logs = 0;
  for (const Measurement& m : out) logs += std::log(m.value / m.peer);
  out.push_back(
      {"polls.geometric_mean", "ratio", std::exp(logs / static_cast<double>(out.size()))});
  return out;
}

const Register kRegister("polls", "long kernels with and without their polls: --model NAME", Run);

}  // namespace
}  // namespace uopd::perf::polls_perf
