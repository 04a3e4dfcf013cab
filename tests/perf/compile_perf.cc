// SPDX-License-Identifier: MIT
// What compiling the kernels of repeated structures takes on the CPU device: the longest kernel of
// each graph of tests/support/repeated_graphs.h, whole and as it is cut
// (core/schedule/limits/limit_size.cc). docs/schedule.md has what was learned from it.
#include <algorithm>
#include <cstdio>
#include <ctime>
#include <set>

#include "core/base/text.h"
#include "core/codegen/codegen.h"
#include "core/ir/graph.h"
#include "core/ir/io/wire.h"
#include "core/render/formats.h"
#include "core/schedule/schedule.h"
#include "devices/cpu/cpu_device.h"
#include "tests/perf/perf.h"
#include "tests/support/repeated_graphs.h"

namespace uopd::perf::compile_perf {
namespace {

constexpr double kLong = 3;  // seconds: nothing larger is tried

double CpuSeconds() {
  timespec t{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

absl::StatusOr<std::vector<Measurement>> Run(const Options& options) {
  UOPD_ASSIGN(const std::shared_ptr<devices::cpu::CpuDevice> device,
              devices::cpu::CpuDevice::Open({}));
  std::vector<Measurement> out;
  for (const test::Repeated& graph : test::RepeatedGraphs()) {
    if (!options.model.empty() && graph.name.find(options.model) == std::string_view::npos)
      continue;
    bool last = false;
    for (int n = 1; n <= 4096 * options.scale && !last; n *= 2) {
      ir::UOpContext ctx;
      schedule::Options fuse;
      fuse.limits = schedule::KernelLimits::Of(device->target());
      const ir::UOp sink = graph.build(ctx, n);
      const auto schedule = schedule::MakeSchedule(ctx, sink, fuse);
      if (!schedule.ok()) {
        std::fprintf(stderr, "%s %d: %s\n", std::string(graph.name).c_str(), n,
                     StatusText(schedule.status()).c_str());
        break;
      }
      std::set<std::string_view> seen;
      for (const schedule::Item& item : schedule->items) {
        if (item.kind != schedule::Item::kKernel || !seen.insert(item.graph).second) continue;
        if (seen.size() > 6) break;
        ir::UOpContext kernel;
        UOPD_ASSIGN(const ir::UOp root, ir::Decode(kernel, item.graph, ir::Level::kKernel));
        const auto nodes = ir::Toposort(kernel, root);
        int ranges = 0, reduces = 0;
        for (ir::UOp u : nodes) ranges += u.Is(ir::Op::RANGE), reduces += u.Is(ir::Op::REDUCE);
        double start = CpuSeconds();
        const auto lowered = codegen::Lower(kernel, root, device->target(), {});
        const double codegen = CpuSeconds() - start;
        if (!lowered.ok()) {
          std::fprintf(stderr, "%s %d: %s\n", std::string(graph.name).c_str(), n,
                       StatusText(lowered.status()).c_str());
          last = true;
          break;
        }
        int vectors = 0;
        for (ir::UOp u : lowered->linear.srcs()) {
          const auto* shape = kernel.ShapeOf(u);
          vectors += shape != nullptr && !shape->empty();
        }
        UOPD_ASSIGN(
            const std::string text,
            render::RenderLlvmIr(kernel, lowered->linear, lowered->name, lowered->variables));
        start = CpuSeconds();
        const auto object = device->compiler().Compile(text);
        const double llvm = CpuSeconds() - start;
        std::string opts;
        for (const auto& o : lowered->opts) Append(opts, codegen::Text(o), " ");
        std::fprintf(stderr,
                     "%-28s %5d %-26s nodes %6zu ranges %3d reduces %3d lines %6zu vectors %6d "
                     "codegen %8.1f llvm %8.1f ms  us/line %.1f bytes %zu %s\n",
                     std::string(graph.name).c_str(), n, lowered->name.c_str(), nodes.size(),
                     ranges, reduces, lowered->linear.n_src(), vectors, 1e3 * codegen, 1e3 * llvm,
                     1e6 * llvm / static_cast<double>(lowered->linear.n_src()),
                     object.ok() ? object->size() : 0, opts.c_str());
        if (llvm + codegen > kLong) last = true;
      }
    }
  }
  return out;
}

const Register kRegister(
    "compile", "compiling kernels of repeated structures: --model NAME, --scale X of their size",
    Run);

}  // namespace
}  // namespace uopd::perf::compile_perf
