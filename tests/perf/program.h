// SPDX-License-Identifier: MIT
// A program in this process: scheduled, compiled by the heuristics and run on a device, without a
// daemon.
#pragma once
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/base/status.h"
#include "core/codegen/codegen.h"
#include "core/ir/shape.h"
#include "core/schedule/schedule.h"
#include "devices/api/device.h"

namespace uopd::perf {

struct ProgramOptions {
  // Over 0, for indices: integers of input buffers are uniformly random from 0 on, below this.
  int64_t integers_below = 0;
  // Only the part of the graph that runs every time if all inputs but the first one stay the same
  // (core/schedule/kept/kept.h). Kept values are numbers as those of input buffers.
  bool kept = false;
  DtypeNumberSet rounds;  // operands of products may be rounded to these dtypes
  bool fill = true;       // false: buffers keep what their memory held before
  // If set: the opts of the first kernel.
  const std::vector<codegen::Opt>* opts = nullptr;
};

class Program {
 public:
  // `graph`: wire form of a tensor graph without variables. Its input buffers are filled with
  // numbers between -1 and 1, integers between -7 and 7.
  static absl::StatusOr<std::unique_ptr<Program>> Make(std::shared_ptr<devices::Device> device,
                                                       std::string_view graph,
                                                       ProgramOptions options = {});

  // Runs all steps `times` times and waits.
  absl::Status Run(int times = 1);
  // The time of every step of one run on the device, in seconds.
  absl::StatusOr<std::vector<double>> RunTimed();

  struct Step {
    codegen::LoweredKernel kernel;  // its nodes are gone
    std::shared_ptr<devices::Executable> executable;
    std::vector<devices::BufferArg> args;
    double codegen_seconds = 0, compile_seconds = 0;
    std::string text;  // of the target's format
  };
  std::span<const Step> steps() const { return steps_; }

 private:
  Program(std::shared_ptr<devices::Device> device, ProgramOptions options)
      : device_(std::move(device)),
        options_(std::move(options)),
        stream_(device_->NewStream().value()) {}
  absl::Status Prepare(std::string_view graph);
  absl::StatusOr<ir::UOp> MainGraph(ir::UOpContext& ctx, ir::UOp sink,
                                    const schedule::Options& options) const;
  absl::Status Fill(devices::Buffer& buffer, const schedule::Slot& slot, size_t seed);

  std::shared_ptr<devices::Device> device_;
  const ProgramOptions options_;
  std::unique_ptr<devices::Stream> stream_;
  std::vector<std::shared_ptr<devices::Buffer>> slots_;
  std::shared_ptr<devices::Buffer> arena_;
  std::vector<Step> steps_;
};

}  // namespace uopd::perf
