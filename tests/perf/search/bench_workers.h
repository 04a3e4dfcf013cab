// SPDX-License-Identifier: MIT
// Worker processes as a daemon has them for tuning on the CPU, for benchmarks of the search.
#pragma once
#include <memory>
#include <string>

#include "server/worker/fork/fork_server.h"
#include "server/worker/tune/worker_measurer.h"

namespace uopd::perf {

class BenchWorkers {
 public:
  // `daemon` is the program whose fork server is used: uopd.
  static absl::StatusOr<std::unique_ptr<BenchWorkers>> Start(const std::string& daemon);

  const Target& target() const { return device_->target(); }
  worker::WorkerPools pools() { return {*compile_, *measure_}; }
  // How the daemon measures.
  worker::MeasurerOptions MeasurerFor() const;

 private:
  BenchWorkers() = default;

  std::shared_ptr<devices::Device> device_;
  std::unique_ptr<worker::ForkServer> forks_;
  std::unique_ptr<worker::Supervisor> compile_, measure_;
};

}  // namespace uopd::perf
