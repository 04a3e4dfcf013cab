// SPDX-License-Identifier: MIT
#include "server/replay.h"

#include <sys/resource.h>

#include <cstdio>
#include <future>

#include "cache/store.h"
#include "core/base/input_file.h"
#include "core/base/text.h"
#include "core/ir/io/print.h"
#include "core/ir/io/wire.h"
#include "server/engine/compile/compile_service.h"
#include "server/engine/compile/source/core_compiler.h"
#include "server/engine/compile/source/reproducer.h"

namespace uopd {
namespace {

constexpr size_t kMaxFile = size_t{1} << 30;
constexpr int kFine = 0, kStillFails = 1, kCannotTell = 125;

// The same limit as a worker that compiles has.
void LimitMemory(const Config& config) {
  const rlimit no_core{0, 0};
  setrlimit(RLIMIT_CORE, &no_core);
#ifndef UOPD_SANITIZED  // shadow memory takes terabytes of address space
  if (const auto bytes = static_cast<rlim_t>(config.compile_worker_bytes()); bytes > 0) {
    const rlimit space{bytes, bytes};
    setrlimit(RLIMIT_AS, &space);
  }
#endif
}

absl::Status Compile(const std::string& text, std::unique_ptr<devices::Registry> registry,
                     const engine::ReproducerHead& head) {
  ir::UOpContext ctx;
  UOPD_ASSIGN(const ir::UOp sink, ir::Parse(ctx, text));
  const std::string graph = ir::Encode(ctx, sink);
  engine::DeviceSet devices(std::move(registry));
  const engine::CoreCompiler graph_compiler;
  cache::Store store(int64_t{1} << 30);
  engine::TaskPool threads(1, SIZE_MAX);
  engine::CompileService service(
      {.lease = {.owner = "replay"}, .repro_folder = "", .limits = {}, .threads = 1},
      graph_compiler, store, devices, threads);
  engine::RequestContext request;
  std::promise<absl::Status> prepared;
  service.Begin(
      request, {.graph = {{}, graph}, .options = head.options},
      [&](const engine::Preparation::Answer& answer) { prepared.set_value(answer.status()); });
  return prepared.get_future().get();
}

int CannotTell(const std::string& file, const std::string& why) {
  std::fprintf(stderr, "uopd: %s: %s\n", file.c_str(), why.c_str());
  return kCannotTell;
}

}  // namespace

int Replay(const std::string& file, const Config& config) {
  const auto text = ReadInputFile(file, kMaxFile);
  if (!text.ok()) return CannotTell(file, StatusText(text.status()));
  const auto head = engine::ReadReproducerHead(*text);
  if (!head.ok()) return CannotTell(file, StatusText(head.status()));
  devices::RegistryOptions options;
  options.devices = head->devices;
  options.cpu_threads = static_cast<int>(config.device_cpu_threads());
  options.cpu_features = config.device_cpu_features();
  options.compile_only = config.device_compile_only();
  options.cuda_ptx = config.device_cuda_ptx();
  options.cuda_specific = config.device_cuda_specific();
  options.cuda_graphs = config.device_cuda_graphs();
  options.hip_graphs = config.device_hip_graphs();
  options.hip_rtc = config.device_hip_rtc();
  options.memory_limit_bytes = static_cast<size_t>(config.limits_total_bytes());
  auto registry = devices::Registry::Create(options);
  if (!registry.ok()) return CannotTell(file, StatusText(registry.status()));
  LimitMemory(config);
  const absl::Status status = Compile(*text, *std::move(registry), *head);
  const std::string code = absl::StatusCodeToString(status.code());
  std::fprintf(stderr, "uopd: %s: %s%s\n", file.c_str(), code.c_str(),
               status.ok() ? "" : Cat(": ", StatusText(status)).c_str());
  if (absl::IsUnavailable(status)) return kCannotTell;  // a device
  return absl::IsInternal(status) ? kStillFails : kFine;
}

}  // namespace uopd
