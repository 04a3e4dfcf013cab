// SPDX-License-Identifier: MIT
// A program in this process: scheduled, compiled by the heuristics and run on a CPU device, without
// a daemon.
#pragma once
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/base/status.h"
#include "core/codegen/codegen.h"
#include "core/schedule/schedule.h"
#include "devices/cpu/cpu_device.h"

namespace uopd::perf {

class Program {
 public:
  // `graph`: wire form of a tensor graph without variables. Its input buffers are filled with
  // numbers between -1 and 1, integers between -7 and 7. With `integers_below`, which is for
  // indices, integers are uniformly random and at least 0.
  static absl::StatusOr<std::unique_ptr<Program>> Make(
      std::shared_ptr<devices::cpu::CpuDevice> device, std::string_view graph,
      int64_t integers_below = 0);
  // The same for the part of the graph that runs every time if all inputs but the first one stay the
  // same (core/schedule/kept/kept.h). Kept values are numbers as those of input buffers.
  static absl::StatusOr<std::unique_ptr<Program>> MakeKept(
      std::shared_ptr<devices::cpu::CpuDevice> device, std::string_view graph);

  // Runs every step once and waits.
  absl::Status Run();
  // The time of every step of one run, in seconds.
  absl::StatusOr<std::vector<double>> RunTimed();

  struct Step {
    codegen::LoweredKernel kernel;  // its nodes are gone
    std::shared_ptr<devices::Executable> executable;
    std::vector<devices::BufferArg> args;
    double codegen_seconds = 0, compile_seconds = 0;
    std::string text;  // LLVM IR
  };
  std::span<const Step> steps() const { return steps_; }

 private:
  Program(std::shared_ptr<devices::cpu::CpuDevice> device, int64_t integers_below)
      : device_(std::move(device)),
        integers_below_(integers_below),
        stream_(device_->NewStream().value()) {}
  absl::Status Prepare(ir::UOpContext& ctx, ir::UOp sink);
  absl::Status Fill(devices::Buffer& buffer, const schedule::Slot& slot, size_t seed);

  std::shared_ptr<devices::cpu::CpuDevice> device_;
  const int64_t integers_below_;
  std::unique_ptr<devices::Stream> stream_;
  std::vector<std::shared_ptr<devices::Buffer>> slots_;
  std::shared_ptr<devices::Buffer> arena_;
  std::vector<Step> steps_;
};

}  // namespace uopd::perf
