// SPDX-License-Identifier: MIT
// Job "measure": loads a compiled kernel, runs it on generated data, and returns its times and its
// outputs.
//
// FillPattern fills every buffer, with the slot as the seed. Guard bytes follow each buffer; the
// kernel must not change them. Buffers that are both read and written are filled again before each
// run. A kernel that hangs or faults ends the worker; so does one that makes its device lost, as a
// fault on a GPU does.
//
// A job that wants the outputs gets fresh contents, whatever kernels ran before. Other jobs get the
// buffers of the job before, if they have the same (measure_buffers.h).
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/status.h"
#include "devices/api/kernel_code.h"
#include "server/worker/job/measure_buffers.h"
#include "server/worker/supervisor.h"

namespace uopd::worker {

// Version of the measuring method. It is part of the environment key of tuning results.
inline constexpr int kMeasurePolicyVersion = 3;

struct MeasureRequest {
  static constexpr char kJob[] = "measure";

  std::string device = "CPU";
  std::string object;
  std::string entry;
  std::vector<MeasureBuffer> buffers;  // by PARAM slot
  std::vector<int64_t> variables;
  LaunchShape shape;
  int runs = 3;  // timed runs after the first run; 0: only the outputs
  // Of the best kernel so far; 0: none. A kernel that is clearly slower is run less often.
  int64_t best_ns = 0;
  // No further run begins once all runs together took longer than this; 0: no bound.
  int64_t budget_ns = 500'000'000;
  bool want_outputs = false;

  std::string Encode() const;
  static absl::StatusOr<MeasureRequest> Decode(std::string_view bytes);
  // The quarantine knows the job by the kernel and its launch: a kernel that killed its worker is
  // not tried again with another number of runs.
  Job ToJob(std::chrono::milliseconds time_limit) const;
};

struct MeasureAnswer {
  int64_t min_ns = 0, median_ns = 0;  // of the timed runs; if there are none, of the first
  int runs = 0;                       // the first one included
  std::vector<std::string> outputs;   // want_outputs: contents of the written buffers, by slot

  std::string Encode() const;
  static absl::StatusOr<MeasureAnswer> Decode(std::string_view bytes);
};

// Whether more runs of a kernel would only tell how much slower it is than one of `best_ns` (0:
// there is none): it took three times as long once, or 1.3 times as long in the best of two timed
// runs. `first_ns`: the run before the timed ones, which may have waited for memory and code.
bool IsClearlySlower(int64_t best_ns, int64_t first_ns, std::span<const int64_t> timed);

// The job's handler. INTERNAL: the kernel does not load, or wrote outside of a buffer.
// UNAVAILABLE, and the worker is broken: the kernel made the device lost.
absl::StatusOr<std::string> RunMeasureJob(WorkerState& state, std::string_view payload);

}  // namespace uopd::worker
