// SPDX-License-Identifier: MIT
// The kernels of the works of the benchmark `gpu`: opts, estimates and, on a device, the time of
// each. Where --device names a chip (sm_90a) in place of a device, nothing runs, and
// UOPD_SHOW_TEXT=1 prints what would be compiled.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>
#include <utility>

#include "core/base/target/gpu_targets.h"
#include "core/base/text.h"
#include "core/codegen/codegen.h"
#include "core/codegen/opts/opt.h"
#include "core/ir/io/wire.h"
#include "core/ir/verify/spec.h"
#include "core/render/renderer.h"
#include "core/schedule/schedule.h"
#include "devices/registry.h"
#include "tests/perf/gpu/gpu_works.h"
#include "tests/perf/models/subjects.h"
#include "tests/perf/perf.h"
#include "tests/perf/program.h"
#include "tests/support/chip_kernels.h"

namespace uopd::perf::gpu_kernels {
namespace {

void Show(const GpuWork& work, const codegen::LoweredKernel& kernel, const std::string& remark) {
  std::string opts;
  for (const codegen::Opt& opt : kernel.opts) opts += " " + codegen::Text(opt);
  std::printf("%s: %s:%s; %.3g flop, %.3g B%s%s\n", work.name.c_str(), kernel.name.c_str(),
              opts.c_str(), kernel.flops, kernel.bytes, kernel.polls ? ", polls" : "",
              remark.c_str());
  std::fflush(stdout);
}

absl::StatusOr<client::Exported> GraphOf(const GpuWork& work) {
  client::Client client(std::make_shared<client::OfflineExecutor>());
  const client::Tensor result = work.build(client);
  UOPD_TRY(result.status());
  return client::Export(std::span(&result, 1));
}

// A step of a model of tests/perf/models.
absl::StatusOr<client::Exported> GraphOfStep(const std::string& model) {
  client::Client client(std::make_shared<client::OfflineExecutor>());
  UOPD_ASSIGN(const auto subject, MakeSubject(model, client));
  UOPD_ASSIGN(const std::vector<client::Tensor> step, subject->Step());
  return client::Export(step);
}

// Lists of opts for the first kernel of this work: lines "WORK: OPTS" of the file that
// UOPD_TRY_OPTS names.
std::vector<std::string> OthersOf(const GpuWork& work) {
  const char* path = std::getenv("UOPD_TRY_OPTS");
  std::ifstream file(path != nullptr ? path : "");
  std::vector<std::string> out;
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with(work.name + ": ")) out.push_back(line.substr(work.name.size() + 2));
  }
  return out;
}

// Without a device: what the code generator makes for this chip.
absl::Status ShowText(const GpuWork& work, const client::Exported& graph, const Target& target) {
  schedule::Options options = test::ScheduleOptionsFor(target);
  options.allowed_products = work.options.rounds;
  UOPD_ASSIGN(const schedule::Schedule schedule, test::ScheduleOf(graph.graph, options));
  UOPD_ASSIGN(const render::Renderer* renderer, render::RendererFor(target.format));
  const auto show = [&](const schedule::Item& item,
                        const std::vector<codegen::Opt>* opts) -> absl::Status {
    ir::UOpContext kernels;
    UOPD_ASSIGN(const ir::UOp root, ir::Decode(kernels, item.graph, ir::Level::kKernel));
    UOPD_ASSIGN(const codegen::LoweredKernel kernel,
                codegen::Lower(kernels, root, target, {.opts = opts}));
    Show(work, kernel, "");
    UOPD_ASSIGN(const std::string text,
                renderer->render({kernels, kernel.linear, kernel.name, kernel.variables, target,
                                  item.buffers.size()}));
    if (std::getenv("UOPD_SHOW_TEXT") != nullptr) std::printf("%s\n", text.c_str());
    return absl::OkStatus();
  };
  bool is_first = true;
  for (const schedule::Item& item : schedule.items) {
    if (item.kind != schedule::Item::kKernel) continue;
    UOPD_TRY(show(item, nullptr));
    if (!std::exchange(is_first, false)) continue;
    for (const std::string& text : OthersOf(work)) {
      UOPD_ASSIGN(const auto opts, codegen::ParseOpts(text));
      UOPD_TRY(show(item, &opts));
    }
  }
  return absl::OkStatus();
}

// Of each kernel, in several runs, after some that bring the chip to its clock.
absl::StatusOr<std::vector<double>> FewestSeconds(Program& program) {
  UOPD_TRY(program.Run(20));
  UOPD_ASSIGN(std::vector<double> out, program.RunTimed());
  for (int i = 0; i < 10; ++i) {
    UOPD_ASSIGN(const std::vector<double> seconds, program.RunTimed());
    for (size_t k = 0; k < out.size(); ++k) out[k] = std::min(out[k], seconds[k]);
  }
  return out;
}

// The same work with other opts.
void ShowOthers(const GpuWork& work, const client::Exported& graph,
                const std::shared_ptr<devices::Device>& device) {
  for (const std::string& text : OthersOf(work)) {
    const auto run = [&]() -> absl::Status {
      UOPD_ASSIGN(const auto opts, codegen::ParseOpts(text));
      UOPD_ASSIGN(const auto program,
                  Program::Make(device, graph.graph, {.fill = false, .opts = &opts}));
      UOPD_ASSIGN(const std::vector<double> seconds, FewestSeconds(*program));
      Show(work, program->steps()[0].kernel, Cat(": ", 1e6 * seconds[0], " us"));
      return absl::OkStatus();
    };
    if (const absl::Status status = run(); !status.ok())
      std::printf("%s: %.300s\n", text.c_str(), std::string(status.message()).c_str());
  }
}

absl::Status ShowTimes(const GpuWork& work, const std::shared_ptr<devices::Device>& device) {
  UOPD_ASSIGN(const client::Exported graph, GraphOf(work));
  UOPD_ASSIGN(const auto program, Program::Make(device, graph.graph, work.options));
  UOPD_ASSIGN(const std::vector<double> seconds, FewestSeconds(*program));
  for (size_t i = 0; i < seconds.size(); ++i)
    Show(work, program->steps()[i].kernel, Cat(": ", 1e6 * seconds[i], " us"));
  ShowOthers(work, graph, device);
  return absl::OkStatus();
}

absl::StatusOr<std::vector<Measurement>> RunGpuKernels(const Options& options) {
  const auto target = GpuTarget(options.device);
  std::shared_ptr<devices::Device> device;
  if (!target) {
    devices::RegistryOptions registry_options;
    if (!options.device.empty()) registry_options.devices = options.device;
    registry_options.cuda_specific = std::getenv("UOPD_CUDA_SPECIFIC") != nullptr;
    UOPD_ASSIGN(const auto registry, devices::Registry::Create(registry_options));
    UOPD_ASSIGN(device, registry->Get(""));
  }
  for (const GpuWork& work : GpuWorks(options.scale)) {
    if (!work.name.starts_with(options.model)) continue;
    const auto show = [&]() -> absl::Status {
      if (!target) return ShowTimes(work, device);
      UOPD_ASSIGN(const client::Exported graph, GraphOf(work));
      return ShowText(work, graph, *target);
    };
    const absl::Status shown = show();
    if (!shown.ok())
      std::printf("%s: %s\n", work.name.c_str(), std::string(shown.message()).c_str());
  }
  if (target && options.model == "decode") {
    UOPD_ASSIGN(const client::Exported graph, GraphOfStep(options.model));
    UOPD_TRY(ShowText({.name = options.model}, graph, *target));
  }
  return std::vector<Measurement>{};
}

const Register kRegisterKernels(
    "gpu-kernels", "the kernels of `gpu` with opts and times: --device NAME or a chip (sm_90a)",
    RunGpuKernels);

}  // namespace
}  // namespace uopd::perf::gpu_kernels
