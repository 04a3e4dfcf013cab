// SPDX-License-Identifier: MIT
// An engine's parts for tests: real scheduling, kernels that are made but not compiled, the NULL
// device, a store in memory.
#pragma once
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <functional>
#include <future>
#include <initializer_list>
#include <memory>
#include <string>
#include <vector>

#include "cache/store.h"
#include "core/ir/build.h"
#include "core/ir/graph.h"
#include "core/ir/io/wire.h"
#include "devices/registry.h"
#include "server/engine/compile/compile_service.h"

namespace uopd::engine {

// The buffer argument with number i.
inline schedule::BufferRef Slot(int64_t i) { return {schedule::BufferRef::kArgument, i}; }

class FakeCompiler final : public GraphCompiler {
 public:
  std::string ScheduleEnvironment() const override { return "fake"; }
  std::string ChoiceEnvironment(const devices::Device&,
                                const CompileOptions& options) const override {
    return "code=fake " + options.KernelText();
  }
  absl::StatusOr<schedule::Schedule> MakeSchedule(ir::UOpContext& ctx, ir::UOp sink,
                                                  const schedule::Options& options) const override {
    ++schedules;
    return schedule::MakeSchedule(ctx, sink, options);
  }
  absl::StatusOr<KernelSource> LowerKernel(std::string_view graph, const devices::Device&,
                                           const CompileOptions& options,
                                           const std::vector<codegen::Opt>* opts, bool,
                                           PhaseTimings*,
                                           Interrupt* maybe_interrupt) const override {
    ++builds;
    if (on_build) UOPD_TRY(on_build());
    if (on_interrupt) UOPD_TRY(on_interrupt(*maybe_interrupt));
    if (opts != nullptr && *opts == kUselessOpts) return absl::InvalidArgumentError("useless opts");
    ir::UOpContext ctx;
    UOPD_ASSIGN(ir::UOp sink, ir::Decode(ctx, graph, ir::Level::kKernel));
    KernelSource source;
    source.text = on_text ? on_text() : "text of " + options.KernelText();
    KernelRecord& out = source.record;
    if (opts != nullptr) out.opts = *opts;
    out.name = "fake";
    out.launch = launch;
    for (ir::UOp u : ir::Toposort(ctx, sink)) {
      if (!u.Is(ir::Op::PARAM)) continue;
      const auto slot = static_cast<size_t>(u.slot());
      out.buffers.resize(std::max(out.buffers.size(), slot + 1));
      out.buffers[slot] = {u.dtype(), ir::Product(*ir::StaticDims(*ctx.ShapeOf(u))), true, true};
    }
    if (!out.buffers.empty()) {
      out.estimate_ns = ns_per_element * static_cast<double>(out.buffers[0].elements);
    }
    return source;
  }

  absl::StatusOr<KernelText> ExplainKernel(std::string_view, const devices::Device&,
                                           const CompileOptions&, const std::vector<codegen::Opt>*,
                                           Interrupt*) const override {
    return KernelText{.source = "text", .lines = "lines", .graph = "graph"};
  }

  // What LowerKernel refuses.
  static inline const Opts kUselessOpts = {{codegen::OptKind::kUnroll, 99, 99}};

  mutable std::atomic<int> schedules{0}, builds{0};
  std::function<absl::Status()> on_build;                // runs in every build
  std::function<absl::Status(Interrupt&)> on_interrupt;  // the same, with its Interrupt
  std::function<std::string()> on_text;                  // gives the source
  codegen::LaunchGeometry launch;                        // of every kernel
  double ns_per_element = 0;                             // for the estimates of kernels
};

// Calls start(done) and waits until done was called; what it was called with.
template <class Result, class Start>
Result Await(Start start) {
  auto promise = std::make_shared<std::promise<Result>>();
  std::future<Result> result = promise->get_future();
  start([promise](Result given) { promise->set_value(std::move(given)); });
  return result.get();
}

// The program that is prepared; null: none.
inline std::shared_ptr<ProgramHandle> FindProgram(CompileService& service, const GraphRef& ref,
                                                  const CompileOptions& options = {}) {
  ResolvedRequest wanted{.graph = ref, .options = options};
  service.Find(wanted);
  return wanted.program;
}

// What CompileService::Begin gives, for a request without a Cancellation: its limits are polled.
inline Preparation::Answer WaitForProgram(CompileService& service, RequestContext& request,
                                          const GraphRef& ref, const CompileOptions& options) {
  ResolvedRequest wanted{.graph = ref, .options = options};
  if (service.FindFor(request, wanted)) return request.prepared;
  auto promise = std::make_shared<std::promise<Preparation::Answer>>();
  std::future<Preparation::Answer> answer = promise->get_future();
  const auto caller = service.Begin(request, wanted, [promise](Preparation::Answer given) {
    promise->set_value(std::move(given));
  });
  while (answer.wait_for(std::chrono::milliseconds(5)) != std::future_status::ready) {
    if (absl::Status over = request.Check(); !over.ok()) {
      caller->Leave(std::move(over));
      break;
    }
  }
  return answer.get();
}

// In a second pass, CTest has the environment ask for devices that work late and in the background.
inline devices::RegistryOptions TestDevices() {
  devices::RegistryOptions options;
  if (const char* us = std::getenv("UOPD_DEVICE_FORCE_ASYNC_US")) {
    options.force_async_us = std::atoi(us);
  }
  return options;
}

inline std::unique_ptr<devices::Registry> NullRegistry(
    devices::RegistryOptions options = TestDevices()) {
  options.devices = "NULL,NULL:1";
  options.memory_limit_bytes = 64 << 20;
  return *devices::Registry::Create(options);
}

// slot 0 = slot 1 * factor, f32 of n elements, on `device`.
inline std::string ScaleGraph(int64_t n, double factor, std::string_view device = "") {
  ir::UOpContext ctx;
  const ir::UOp shape = ir::ShapeArg(ctx, std::initializer_list<int64_t>{n});
  const auto param = [&](int64_t slot) {
    return ir::Param(ctx, slot, ir::Dtype::F32, shape, device);
  };
  const ir::UOp value = ir::Mul(ctx, param(1), ctx.Float(ir::Dtype::F32, factor));
  const ir::UOp store = ir::Store(ctx, param(0), value);
  return ir::Encode(ctx, ir::Sink(ctx, std::span(&store, 1)));
}

// For each size n: slot 2i = slot 2i+1 * 2, f32 of n elements. So there is a kernel for each size.
inline std::string ScaleGraphs(std::initializer_list<int64_t> sizes) {
  ir::UOpContext ctx;
  std::vector<ir::UOp> stores;
  for (const int64_t n : sizes) {
    const ir::UOp shape = ir::ShapeArg(ctx, std::initializer_list<int64_t>{n});
    const auto slot = static_cast<int64_t>(stores.size()) * 2;
    const ir::UOp to = ir::Param(ctx, slot, ir::Dtype::F32, shape, "");
    const ir::UOp from = ir::Param(ctx, slot + 1, ir::Dtype::F32, shape, "");
    stores.push_back(ir::Store(ctx, to, ir::Mul(ctx, from, ctx.Float(ir::Dtype::F32, 2))));
  }
  return ir::Encode(ctx, ir::Sink(ctx, stores));
}

}  // namespace uopd::engine
