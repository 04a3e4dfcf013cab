// SPDX-License-Identifier: MIT
// Attention and softmax on the CPU device as they are scheduled, against the same graph with
// nothing staged (core/schedule/staging.h): a kernel for each of scores, softmax and product.
#include <cmath>

#include "core/base/text.h"
#include "core/ir/build.h"
#include "core/schedule/schedule.h"
#include "devices/cpu/cpu_device.h"
#include "server/engine/core_pipeline.h"
#include "tests/perf/perf.h"
#include "tests/support/model_graphs.h"

namespace uopd::perf {
namespace {

struct Shape {
  std::string name;
  int64_t heads, queries, keys, depth;  // depth 0: softmax of rows
};

const Shape kShapes[] = {{"decode", 32, 1, 1024, 64},       {"decode_few_heads", 4, 1, 1024, 64},
                         {"prefill_16", 8, 16, 16, 32},     {"prefill_128", 8, 128, 128, 64},
                         {"prefill_512", 12, 512, 512, 64}, {"prefill_1024", 2, 1024, 1024, 128},
                         {"softmax_rows", 512, 1, 1024, 0}, {"softmax_few_rows", 2, 1, 8192, 0}};

ir::UOp Graph(ir::UOpContext& ctx, const Shape& s) {
  testing::GraphBuilder g(ctx);
  if (s.depth == 0) {
    g.Output(g.Softmax(g.Input({s.heads, s.keys})));
  } else {
    const ir::UOp q = g.Input({s.heads, s.queries, s.depth}),
                  k = g.Input({s.heads, s.keys, s.depth}), v = g.Input({s.heads, s.keys, s.depth});
    g.Output(g.Attention(q, k, v));
  }
  return g.Finish();
}

// A schedule, compiled, with memory of its own.
class Program {
 public:
  absl::Status Load(devices::Device& device, const Shape& shape, int64_t stage_bytes) {
    ir::UOpContext ctx;
    schedule::Options options;
    if (stage_bytes >= 0) options.stage_bytes = stage_bytes;
    UOPD_ASSIGN(const schedule::Schedule schedule,
                schedule::MakeSchedule(ctx, Graph(ctx, shape), options));
    for (const schedule::Slot& slot : schedule.slots) {
      UOPD_ASSIGN(auto buffer, device.Allocate(static_cast<size_t>(slot.bytes),
                                               devices::MemoryKind::kHostVisible));
      auto* values = reinterpret_cast<float*>(buffer->host_data());
      for (int64_t i = 0; i < slot.bytes / 4; ++i)
        values[i] = static_cast<float>(std::sin(static_cast<double>(i)));
      slots_.push_back(std::move(buffer));
    }
    const int64_t bytes = schedule.arenas.empty() ? 0 : schedule.arenas[0].second;
    UOPD_ASSIGN(arena_,
                device.Allocate(static_cast<size_t>(bytes), devices::MemoryKind::kHostVisible));
    PhaseTimings timings;
    for (const schedule::Item& item : schedule.items) {
      UOPD_ASSIGN(const engine::KernelSource source,
                  engine::CorePipeline().LowerKernel(item.graph, device, {}, nullptr, &timings));
      Kernel kernel;
      kernel.shape = source.record.shape;
      devices::Program program = {device.compiler().source_format(),
                                  source.record.name,
                                  source.text,
                                  {static_cast<int>(item.buffers.size()), 0}};
      UOPD_ASSIGN(kernel.executable, device.Load(program));
      for (const schedule::BufferRef& ref : item.buffers) {
        const auto at = static_cast<size_t>(ref.index);
        if (ref.kind == schedule::BufferRef::kArgument)
          kernel.buffers.push_back({slots_[at].get(), 0});
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
    devices::LaunchShape shape;
    std::vector<devices::BufferArg> buffers;
  };
  std::vector<std::shared_ptr<devices::Buffer>> slots_;
  std::shared_ptr<devices::Buffer> arena_;
  std::vector<Kernel> kernels_;
  std::unique_ptr<devices::Stream> stream_;
};

absl::StatusOr<std::vector<Measurement>> Run(const Options& options) {
  UOPD_ASSIGN(const std::shared_ptr<devices::cpu::CpuDevice> device,
              devices::cpu::CpuDevice::Open({}));
  std::vector<Measurement> out;
  for (const Shape& shape : kShapes) {
    if (!options.model.empty() && !shape.name.starts_with(options.model)) continue;
    Program staged, apart;
    UOPD_TRY(staged.Load(*device, shape, -1));
    UOPD_TRY(apart.Load(*device, shape, 0));
    const double work = static_cast<double>(shape.heads * shape.queries * shape.keys) *
                        static_cast<double>(std::max<int64_t>(shape.depth, 4));
    const int rounds =
        std::max(3, static_cast<int>(std::lround(options.scale * std::min(1000.0, 4e9 / work))));
    staged.Run(), apart.Run();
    const Paired times = RunPaired(rounds, [&] { staged.Run(); }, [&] { apart.Run(); });
    const std::string name = Cat("staging.", shape.name);
    const std::string peer = "nothing staged";
    out.push_back({Cat(name, ".time"), "us", 1e6 * Percentile(times.a, 0.25), peer,
                   1e6 * Percentile(times.b, 0.25)});
    out.push_back({Cat(name, ".kernels"), "kernels", static_cast<double>(staged.kernels()), peer,
                   static_cast<double>(apart.kernels())});
  }
  return out;
}

const Register kRegister("staging",
                         "attention and softmax as they are scheduled, and with nothing staged: "
                         "--model decode|prefill|softmax",
                         Run);

}  // namespace
}  // namespace uopd::perf
