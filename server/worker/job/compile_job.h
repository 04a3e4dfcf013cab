// SPDX-License-Identifier: MIT
// Jobs "compile" and "compile draft": source text in, object bytes out. They use the compiler of a
// device, and open the device only if its compiler needs it: a GPU's context does not fit the limit
// of the worker's address space.
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
  static constexpr char kDraftJob[] = "compile draft";  // Compiler::CompileDraft

  std::string device = "CPU";
  // Target::toolchain in the caller's cache key. Empty: any. FAILED_PRECONDITION: the worker has
  // another toolchain, so its bytes must not be stored under that key.
  std::string toolchain;
  std::string source;
  bool draft = false;  // decides the name of the job

  std::string Encode() const;
  static absl::StatusOr<CompileRequest> Decode(std::string_view bytes);
  Job ToJob(std::chrono::milliseconds time_limit) const {
    return {draft ? kDraftJob : kJob, Encode(), time_limit};
  }
};

// The handlers of the jobs. The answer is the object.
absl::StatusOr<std::string> RunCompileJob(WorkerState& state, std::string_view payload);
absl::StatusOr<std::string> RunDraftJob(WorkerState& state, std::string_view payload);

}  // namespace uopd::worker
