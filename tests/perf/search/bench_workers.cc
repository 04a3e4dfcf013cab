// SPDX-License-Identifier: MIT
#include "tests/perf/search/bench_workers.h"

#include <algorithm>
#include <thread>

#include "devices/registry.h"

namespace uopd::perf {

absl::StatusOr<std::unique_ptr<BenchWorkers>> BenchWorkers::Start(const std::string& daemon) {
  auto out = std::unique_ptr<BenchWorkers>(new BenchWorkers());
  devices::RegistryOptions options;
  options.devices = "CPU";
  UOPD_ASSIGN(const auto registry, devices::Registry::Create(options));
  UOPD_ASSIGN(out->device_, registry->Get("CPU"));
  worker::ForkServer::Options forks;
  forks.program = daemon;
  UOPD_ASSIGN(out->forks_, worker::ForkServer::Start(forks));
  worker::Supervisor::Options compile;
  compile.max_workers = std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  compile.setup.cpu_threads = 1;
  out->compile_ = std::make_unique<worker::Supervisor>(*out->forks_, compile);
  worker::Supervisor::Options measure;
  measure.max_workers = 1;
  out->measure_ = std::make_unique<worker::Supervisor>(*out->forks_, measure);
  return out;
}

worker::MeasurerOptions BenchWorkers::MeasurerFor() const {
  worker::MeasurerOptions out;
  out.device = "CPU";
  out.toolchain = target().toolchain;
  return out;
}

}  // namespace uopd::perf
