// SPDX-License-Identifier: MIT
// Job "compile": source text in, object bytes out. It uses the compiler of a device.
//
// A toolchain that aborts ends the worker, but not the daemon.
#pragma once
#include <string>
#include <string_view>

#include "core/base/status.h"
#include "server/worker/supervisor.h"

namespace uopd::worker {

struct CompileRequest {
  static constexpr char kJob[] = "compile";

  std::string device = "CPU";
  // Target::toolchain in the caller's cache key. Empty: any. FAILED_PRECONDITION: the worker has
  // another toolchain, so its bytes must not be stored under that key.
  std::string toolchain;
  std::string source;

  std::string Encode() const;
  static absl::StatusOr<CompileRequest> Decode(std::string_view bytes);
  Job ToJob(std::chrono::milliseconds time_limit) const { return {kJob, Encode(), time_limit}; }
};

// The job's handler. The answer is the object.
absl::StatusOr<std::string> RunCompileJob(WorkerState& state, std::string_view payload);

}  // namespace uopd::worker
