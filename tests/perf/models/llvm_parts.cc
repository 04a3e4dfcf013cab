// SPDX-License-Identifier: MIT
#include "tests/perf/models/llvm_parts.h"

#include <llvm/IR/PassTimingInfo.h>
#include <llvm/Pass.h>
#include <llvm/Support/raw_ostream.h>

#include <cstdlib>
#include <ctime>
#include <fstream>
#include <set>
#include <sstream>
#include <vector>

#include "core/base/text.h"
#include "core/codegen/codegen.h"
#include "core/ir/io/wire.h"
#include "core/render/formats.h"
#include "core/schedule/schedule.h"
#include "devices/cpu/cpu_device.h"

namespace uopd::perf {
namespace {

// The LLVM IR of the distinct kernels.
absl::StatusOr<std::vector<std::string>> Texts(std::string_view graph, const Target& target) {
  ir::UOpContext ctx;
  UOPD_ASSIGN(const ir::UOp sink, ir::Decode(ctx, graph, ir::Level::kTensor));
  schedule::Options options;
  options.limits = schedule::KernelLimits::Of(target);
  UOPD_ASSIGN(const schedule::Schedule schedule, schedule::MakeSchedule(ctx, sink, options));
  std::vector<std::string> out;
  std::set<std::string_view> seen;
  for (const schedule::Item& item : schedule.items) {
    if (item.kind != schedule::Item::kKernel || !seen.insert(item.graph).second) continue;
    ir::UOpContext kernel;
    UOPD_ASSIGN(const ir::UOp root, ir::Decode(kernel, item.graph, ir::Level::kKernel));
    UOPD_ASSIGN(const codegen::LoweredKernel lowered, codegen::Lower(kernel, root, target, {}));
    UOPD_ASSIGN(out.emplace_back(),
                render::RenderLlvmIr(kernel, lowered.linear, lowered.name, lowered.variables));
    if (const char* folder = std::getenv("UOPD_KEEP_TEXT"))
      std::ofstream(Cat(folder, "/", lowered.name, ".ll")) << out.back();
  }
  return out;
}

// The part that a pass over machine code belongs to.
const char* PartOf(std::string_view pass) {
  const auto has = [&](std::string_view word) { return pass.find(word) != std::string_view::npos; };
  if (has("Instruction Selection")) return "selection";
  for (const char* word :
       {"Register", "Live", "Spill", "Virtual", "Slot index", "PHI", "Two-Address"})
    if (has(word)) return "registers";
  return "emission";
}

// Adds the processor times of a report of LLVM's timers. Each of its lines ends with
// `SECONDS ( PERCENT%) SECONDS ( PERCENT%)  NAME`: processor time, wall time, pass.
void AddReport(const std::string& report, std::map<std::string, double>& parts) {
  std::istringstream lines(report);
  for (std::string line; std::getline(lines, line);) {
    const size_t end = line.rfind("%)");
    if (end == std::string::npos) continue;
    const size_t wall = line.rfind('(', end);
    const size_t processor = wall == std::string::npos ? wall : line.rfind('(', wall - 1);
    if (processor == std::string::npos) continue;
    const size_t name = line.find_first_not_of(' ', end + 2);
    if (name == std::string::npos || line.compare(name, 5, "Total") == 0) continue;
    const size_t first = line.rfind(' ', line.find_last_not_of(' ', processor - 1));
    const double ms = 1e3 * std::atof(line.c_str() + (first == std::string::npos ? 0 : first));
    parts[PartOf(std::string_view(line).substr(name))] += ms;
  }
}

double ProcessorMs() {
  timespec t{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return 1e3 * static_cast<double>(t.tv_sec) + 1e-6 * static_cast<double>(t.tv_nsec);
}

}  // namespace

absl::StatusOr<std::map<std::string, double>> LlvmParts(std::string_view graph) {
  UOPD_ASSIGN(const auto device, devices::cpu::CpuDevice::Open({.threads = 2}));
  UOPD_ASSIGN(const std::vector<std::string> texts, Texts(graph, device->target()));
  std::string report;
  llvm::raw_string_ostream out(report);
  llvm::TimePassesIsEnabled = true;
  const double start = ProcessorMs();
  absl::Status status;
  for (const std::string& text : texts) status.Update(device->compiler().Compile(text).status());
  const double total = ProcessorMs() - start;
  llvm::reportAndResetTimings(&out);
  llvm::TimePassesIsEnabled = false;
  UOPD_TRY(status);
  std::map<std::string, double> parts;
  AddReport(report, parts);
  double machine = 0;
  for (const auto& [part, ms] : parts) machine += ms;
  parts["total"] = total;
  parts["passes"] = total - machine;
  return parts;
}

}  // namespace uopd::perf
