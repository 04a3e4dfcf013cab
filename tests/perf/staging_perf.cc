// SPDX-License-Identifier: MIT
// Graphs on the CPU device as they are scheduled, against the same with nothing staged
// (core/schedule/fusion/staging.h).
#include <algorithm>
#include <functional>

#include "core/base/text.h"
#include "core/ir/build.h"
#include "core/schedule/schedule.h"
#include "devices/cpu/cpu_device.h"
#include "server/engine/compile/source/core_compiler.h"
#include "tests/perf/perf.h"
#include "tests/support/model_graphs.h"

namespace uopd::perf::staging_perf {
namespace {

using Builder = std::function<ir::UOp(ir::UOpContext&)>;

struct Case {
  std::string name;
  Builder build;
};

Builder Attention(int64_t heads, int64_t queries, int64_t keys, int64_t depth) {
  return [=](ir::UOpContext& ctx) {
    test::GraphBuilder g(ctx);
    const ir::UOp q = g.Input({heads, queries, depth}), k = g.Input({heads, keys, depth}),
                  v = g.Input({heads, keys, depth});
    g.Output(g.Attention(q, k, v));
    return g.Finish();
  };
}

// The same with its heads put side by side by the STORE.
Builder Merged(int64_t heads, int64_t queries, int64_t keys, int64_t depth) {
  return [=](ir::UOpContext& ctx) {
    test::GraphBuilder g(ctx);
    const ir::UOp q = g.Input({heads, queries, depth}), k = g.Input({heads, keys, depth}),
                  v = g.Input({heads, keys, depth});
    g.Output(g.Reshape(g.Permute(g.Attention(q, k, v), {1, 0, 2}), {queries, heads * depth}));
    return g.Finish();
  };
}

Builder Softmax(int64_t rows, int64_t columns) {
  return [=](ir::UOpContext& ctx) {
    test::GraphBuilder g(ctx);
    g.Output(g.Softmax(g.Input({rows, columns})));
    return g.Finish();
  };
}

// x times two n x n matrices.
Builder Chain(int64_t rows, int64_t n) {
  return [=](ir::UOpContext& ctx) {
    test::GraphBuilder g(ctx);
    g.Output(g.MatMul(g.Relu(g.MatMul(g.Input({rows, n}), g.Input({n, n}))), g.Input({n, n})));
    return g.Finish();
  };
}

Builder NormThenMatMul(int64_t rows, int64_t n) {
  return [=](ir::UOpContext& ctx) {
    test::GraphBuilder g(ctx);
    g.Output(g.MatMul(g.LayerNorm(g.Input({rows, n})), g.Input({n, n})));
    return g.Finish();
  };
}

Builder Transformer(int64_t rows, int64_t width, int64_t heads) {
  return [=](ir::UOpContext& ctx) { return test::TransformerGraph(ctx, 2, rows, width, heads); };
}

const Case kCases[] = {{"decode", Attention(32, 1, 1024, 64)},
                       {"decode_few_heads", Attention(4, 1, 1024, 64)},
                       {"prefill_16", Attention(8, 16, 16, 32)},
                       {"prefill_128", Attention(8, 128, 128, 64)},
                       {"prefill_512", Attention(12, 512, 512, 64)},
                       {"prefill_1024", Attention(4, 1024, 1024, 64)},
                       {"prefill_wide", Attention(2, 1024, 1024, 128)},
                       {"long_decode", Attention(8, 1, 65536, 64)},
                       {"long_8", Attention(8, 8, 32768, 64)},
                       {"long_32", Attention(4, 32, 32768, 64)},
                       {"long_prefill", Attention(1, 512, 32768, 64)},
                       {"merged_decode", Merged(32, 1, 1024, 64)},
                       {"merged_16", Merged(8, 16, 16, 32)},
                       {"merged_128", Merged(8, 128, 128, 64)},
                       {"merged_512", Merged(12, 512, 512, 64)},
                       {"merged_1024", Merged(4, 1024, 1024, 64)},
                       {"softmax_many", Softmax(512, 1024)},
                       {"softmax_few", Softmax(2, 8192)},
                       {"chain_64", Chain(64, 64)},
                       {"chain_128", Chain(128, 128)},
                       {"chain_256", Chain(256, 256)},
                       {"norm_64", NormThenMatMul(64, 64)},
                       {"norm_256", NormThenMatMul(256, 256)},
                       {"transformer_64", Transformer(32, 64, 4)},
                       {"transformer_256", Transformer(64, 256, 4)}};

using Buffers = std::vector<std::shared_ptr<devices::Buffer>>;

// A schedule, compiled, with memory for its temporaries.
class Program {
 public:
  // Makes those of `slots` that are missing.
  absl::Status Load(devices::Device& device, const Builder& build, int64_t stage_bytes,
                    Buffers& slots) {
    ir::UOpContext ctx;
    schedule::Options options;
    options.stage_bytes = stage_bytes;
    options.limits = schedule::KernelLimits::Of(device.target());
    UOPD_ASSIGN(const schedule::Schedule schedule,
                schedule::MakeSchedule(ctx, build(ctx), options));
    for (size_t i = slots.size(); i < schedule.slots.size(); ++i) {
      const int64_t bytes = schedule.slots[i].bytes;
      UOPD_ASSIGN(auto buffer,
                  device.Allocate(static_cast<size_t>(bytes), devices::MemoryKind::kHostVisible));
      auto* values = reinterpret_cast<float*>(buffer->host_data());
      for (int64_t k = 0; k < bytes / 4; ++k)
        values[k] = static_cast<float>((k * 7919) % 2003) / 1000 - 1;
      slots.push_back(std::move(buffer));
    }
    const int64_t bytes = schedule.arenas.empty() ? 0 : schedule.arenas[0].second;
    UOPD_ASSIGN(arena_,
                device.Allocate(static_cast<size_t>(bytes), devices::MemoryKind::kHostVisible));
    PhaseTimings timings;
    for (const schedule::Item& item : schedule.items) {
      UOPD_ASSIGN(const engine::KernelSource source,
                  engine::CoreCompiler().LowerKernel(item.graph, device, {}, nullptr, false,
                                                     &timings, nullptr));
      Kernel kernel;
      kernel.shape = source.record.launch.At({});
      UOPD_ASSIGN(kernel.executable, device.Load({device.target().format,
                                                  source.record.name,
                                                  source.text,
                                                  {static_cast<int>(item.buffers.size()), 0}}));
      for (const schedule::BufferRef& ref : item.buffers) {
        const auto at = static_cast<size_t>(ref.index);
        if (ref.kind == schedule::BufferRef::kArgument)
          kernel.buffers.push_back({slots[at].get(), 0});
        else
          kernel.buffers.push_back(
              {arena_.get(), static_cast<size_t>(schedule.temporaries[at].offset)});
      }
      kernels_.push_back(std::move(kernel));
    }
    UOPD_ASSIGN(stream_, device.NewStream());
    return absl::OkStatus();
  }

  void Run() {
    for (const Kernel& k : kernels_) {
      if (!stream_->Launch(*k.executable, k.shape, k.buffers, {}).ok()) std::abort();
    }
    if (!stream_->Synchronize().ok()) std::abort();
  }

  size_t kernels() const { return kernels_.size(); }

 private:
  struct Kernel {
    std::shared_ptr<devices::Executable> executable;
    LaunchShape shape;
    std::vector<devices::BufferArg> buffers;
  };
  std::shared_ptr<devices::Buffer> arena_;
  std::vector<Kernel> kernels_;
  std::unique_ptr<devices::Stream> stream_;
};

absl::StatusOr<std::vector<Measurement>> Run(const Options& options) {
  UOPD_ASSIGN(const std::shared_ptr<devices::cpu::CpuDevice> device,
              devices::cpu::CpuDevice::Open({}));
  std::vector<Measurement> out;
  for (const Case& c : kCases) {
    if (!options.model.empty() && !c.name.starts_with(options.model)) continue;
    Buffers slots;
    Program staged, apart;
    UOPD_TRY(staged.Load(*device, c.build, schedule::Options().stage_bytes, slots));
    UOPD_TRY(apart.Load(*device, c.build, 0, slots));
    staged.Run(), apart.Run();
    const double start = NowSeconds();
    apart.Run();
    const double once = std::max(NowSeconds() - start, 1e-6);
    const int rounds = std::clamp(static_cast<int>(options.scale * 0.5 / once), 5, 5000);
    const Paired times = RunPaired(rounds, [&] { staged.Run(); }, [&] { apart.Run(); });
    // Other work on the machine only ever adds.
    out.push_back({Cat("staging.", c.name, ".time"), "us", 1e6 * Percentile(times.a, 0),
                   "nothing staged", 1e6 * Percentile(times.b, 0)});
    out.push_back({Cat("staging.", c.name, ".kernels"), "kernels",
                   static_cast<double>(staged.kernels()), "nothing staged",
                   static_cast<double>(apart.kernels())});
  }
  return out;
}

const Register kRegister("staging",
                         "graphs as they are scheduled, and with nothing staged: "
                         "--model decode|prefill|long|merged|softmax|chain|norm|transformer",
                         Run);

}  // namespace
}  // namespace uopd::perf::staging_perf
