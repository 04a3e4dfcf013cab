// SPDX-License-Identifier: MIT
#include "tests/perf/program.h"

#include <algorithm>
#include <cstring>
#include <random>

#include "core/base/text.h"
#include "core/ir/graph.h"
#include "core/ir/io/wire.h"
#include "core/ir/verify/spec.h"
#include "core/render/renderer.h"
#include "core/schedule/kept/kept.h"
#include "core/schedule/prepare/round_products.h"
#include "tests/perf/perf.h"
#include "tests/support/kernel_interpreter.h"

namespace uopd::perf {

absl::StatusOr<std::unique_ptr<Program>> Program::Make(std::shared_ptr<devices::Device> device,
                                                       std::string_view graph,
                                                       ProgramOptions options) {
  std::unique_ptr<Program> program(new Program(std::move(device), std::move(options)));
  UOPD_TRY(program->Prepare(graph));
  return program;
}

absl::Status Program::Fill(devices::Buffer& buffer, const schedule::Slot& slot, size_t seed) {
  const auto size = static_cast<size_t>(ir::ByteSize(slot.dtype));
  std::vector<uint8_t> values(static_cast<size_t>(slot.bytes));
  const bool integer = !ir::IsFloat(slot.dtype);
  std::mt19937_64 random(seed);
  constexpr size_t kPeriod = 2003;  // of values that are not random
  for (size_t i = 0; i < values.size() / size; ++i) {
    if (i >= kPeriod && options_.integers_below == 0) {
      std::memcpy(&values[i * size], &values[(i - kPeriod) * size], size);
      continue;
    }
    const size_t n = ((i + seed) * 7919) % kPeriod;
    const int64_t whole =
        options_.integers_below > 0
            ? static_cast<int64_t>(random() % static_cast<uint64_t>(options_.integers_below))
            : static_cast<int64_t>(n % 15) - 7;
    if (options_.kept && slot.dtype == ir::Dtype::U32) {
      // Words of two bf16 numbers.
      const uint64_t half = ir::EncodeFloat(ir::Dtype::BF16, static_cast<double>(n) / 1000 - 1);
      tests::StoreScalar(ir::Scalar::Int(slot.dtype, static_cast<int64_t>(half << 16 | half)),
                         &values[i * size]);
      continue;
    }
    const ir::Scalar value = integer
                                 ? ir::Scalar::Int(slot.dtype, whole)
                                 : ir::Scalar::Float(slot.dtype, static_cast<double>(n) / 1000 - 1);
    tests::StoreScalar(value, &values[i * size]);
  }
  UOPD_TRY(stream_->CopyIn(std::as_bytes(std::span(values)), buffer, 0));
  return stream_->Synchronize();
}

absl::StatusOr<ir::UOp> Program::MainGraph(ir::UOpContext& ctx, ir::UOp sink,
                                           const schedule::Options& options) const {
  const ir::UOp rounded = schedule::RoundProducts(ctx, ir::Toposort(ctx, sink), options);
  // Slots are numbered as the graph uses them: the first one that is not stored to is the input.
  std::vector<bool> stable;
  for (ir::UOp u : ir::Toposort(ctx, rounded)) {
    if (!u.Is(ir::Op::PARAM)) continue;
    const auto slot = static_cast<size_t>(u.slot());
    if (stable.size() <= slot) stable.resize(slot + 1, true);
  }
  for (ir::UOp u : ir::Toposort(ctx, rounded)) {
    if (u.Is(ir::Op::STORE)) stable[static_cast<size_t>(ir::MaybeBaseOf(u.src(0)).slot())] = false;
  }
  const auto input = std::find(stable.begin(), stable.end(), true);
  if (input != stable.end()) *input = false;
  UOPD_ASSIGN(const auto split, schedule::SplitKept(ctx, rounded, stable, device_->target(), {}));
  if (!split) return absl::InvalidArgumentError("the graph keeps nothing");
  return split->main;
}

absl::Status Program::Prepare(std::string_view graph) {
  ir::UOpContext ctx;
  UOPD_ASSIGN(ir::UOp sink, ir::Decode(ctx, graph, ir::Level::kTensor));
  schedule::Options options;
  options.limits = schedule::KernelLimits::Of(device_->target());
  options.allowed_products = options_.rounds;
  if (options_.kept) {
    UOPD_ASSIGN(sink, MainGraph(ctx, sink, options));
  }
  UOPD_ASSIGN(const schedule::Schedule schedule, schedule::MakeSchedule(ctx, sink, options));
  UOPD_ASSIGN(const render::Renderer* renderer, render::RendererFor(device_->target().format));
  for (const schedule::Slot& slot : schedule.slots) {
    slots_.push_back(nullptr);
    if (!slot.used) continue;
    UOPD_ASSIGN(slots_.back(),
                device_->Allocate(static_cast<size_t>(slot.bytes), devices::MemoryKind::kDevice));
    if (options_.fill) UOPD_TRY(Fill(*slots_.back(), slot, slots_.size()));
  }
  for (const auto& [device, bytes] : schedule.arenas) {
    if (arena_ != nullptr) return absl::UnimplementedError("the program uses several devices");
    UOPD_ASSIGN(arena_,
                device_->Allocate(static_cast<size_t>(bytes), devices::MemoryKind::kDevice));
  }
  for (const schedule::Item& item : schedule.items) {
    if (item.kind != schedule::Item::kKernel)
      return absl::UnimplementedError("the program copies between buffers");
    ir::UOpContext kernel;
    UOPD_ASSIGN(const ir::UOp root, ir::Decode(kernel, item.graph, ir::Level::kKernel));
    Step step;
    double start = NowSeconds();
    codegen::Options lowering;
    if (steps_.empty()) lowering.opts = options_.opts;
    UOPD_ASSIGN(step.kernel, codegen::Lower(kernel, root, device_->target(), lowering));
    UOPD_ASSIGN(step.text,
                renderer->render({kernel, step.kernel.linear, step.kernel.name,
                                  step.kernel.variables, device_->target(), item.buffers.size()}));
    step.codegen_seconds = NowSeconds() - start;
    step.kernel.linear = ir::UOp();
    start = NowSeconds();
    UOPD_ASSIGN(step.executable, device_->Load({device_->target().format,
                                                step.kernel.name,
                                                step.text,
                                                {static_cast<int>(item.buffers.size()), 0}}));
    step.compile_seconds = NowSeconds() - start;
    for (const schedule::BufferRef& ref : item.buffers) {
      if (ref.kind == schedule::BufferRef::kArgument) {
        step.args.push_back({slots_[static_cast<size_t>(ref.index)].get(), 0});
      } else {
        const auto& temporary = schedule.temporaries[static_cast<size_t>(ref.index)];
        step.args.push_back({arena_.get(), static_cast<size_t>(temporary.offset)});
      }
    }
    steps_.push_back(std::move(step));
  }
  return absl::OkStatus();
}

absl::Status Program::Run(int times) {
  for (int i = 0; i < times; ++i) {
    for (Step& s : steps_) {
      UOPD_TRY(stream_->Launch(*s.executable, s.kernel.launch.At({}), s.args, {}));
    }
  }
  return stream_->Synchronize();
}

absl::StatusOr<std::vector<double>> Program::RunTimed() {
  std::vector<int64_t> nanoseconds(steps_.size());
  for (size_t i = 0; i < steps_.size(); ++i) {
    Step& s = steps_[i];
    UOPD_TRY(stream_->Launch(*s.executable, s.kernel.launch.At({}), s.args, {}, &nanoseconds[i]));
  }
  UOPD_TRY(stream_->Synchronize());
  std::vector<double> out;
  for (const int64_t ns : nanoseconds) out.push_back(1e-9 * static_cast<double>(ns));
  return out;
}

}  // namespace uopd::perf
