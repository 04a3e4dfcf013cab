// SPDX-License-Identifier: MIT
// Job "measure": loads a compiled kernel, runs it on made-up buffers, says how long it takes and
// what it computed.
//
// Every buffer is filled by FillPattern with its slot as the seed, and followed by guard bytes that
// the kernel must leave alone. The first run is on fresh contents and gives the outputs; buffers
// that are both read and written are filled again before each run. A kernel that hangs or faults
// costs the worker.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "core/base/status.h"
#include "core/ir/dtype.h"
#include "devices/api/program.h"
#include "server/worker/supervisor.h"

namespace uopd::worker {

// Version of how times come about; part of the environment key of what tuning found.
inline constexpr int kMeasurePolicyVersion = 1;

struct MeasureBuffer {
  ir::Dtype dtype = ir::Dtype::F32;
  uint64_t bytes = 0;
  bool read = false, written = false;
};

struct MeasureRequest {
  static constexpr char kJob[] = "measure";

  std::string device = "CPU";
  std::string object;
  std::string entry;
  std::vector<MeasureBuffer> buffers;  // by PARAM slot
  std::vector<int64_t> variables;
  devices::LaunchShape shape;
  int runs = 3;  // timed ones, after the first; 0: only the outputs
  // No further run once one took longer, or once all took longer together; 0: no bound.
  int64_t stop_above_ns = 0;
  int64_t budget_ns = 500'000'000;
  bool want_outputs = false;

  std::string Encode() const;
  static absl::StatusOr<MeasureRequest> Decode(std::string_view bytes);
  Job ToJob(std::chrono::milliseconds time_limit) const { return {kJob, Encode(), time_limit}; }
};

struct MeasureAnswer {
  int64_t min_ns = 0, median_ns = 0;  // of the timed runs, or of the first if there is no other
  int runs = 0;                       // the first included
  std::vector<std::string> outputs;   // want_outputs: contents of the written buffers, by slot

  std::string Encode() const;
  static absl::StatusOr<MeasureAnswer> Decode(std::string_view bytes);
};

// The handler. INTERNAL: the kernel wrote outside of a buffer, or does not load.
absl::StatusOr<std::string> RunMeasureJob(WorkerState& state, std::string_view payload);

}  // namespace uopd::worker
