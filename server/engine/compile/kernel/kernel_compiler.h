// SPDX-License-Identifier: MIT
// Compiles the source text of a kernel to object bytes, in a worker process.
//
// A compiler that aborts, crashes or does not end costs a worker and this kernel, but not the
// daemon. The answer is INTERNAL and names the kernel. From then on the same text is refused at
// once (server/worker/quarantine.h). A compile that nobody waits for any more is ended together
// with its worker, and its text is not quarantined.
//
// The answer is UNAVAILABLE if no worker can be started (the machine cannot fork), or if something
// outside kills the workers of one kernel again and again. Nothing is then compiled in the daemon's
// own process, because a compiler that crashes would end the daemon.
//
// Thread-safe. As many calls run in parallel as the pool has workers.
#pragma once
#include <atomic>
#include <chrono>
#include <string>

#include "cache/store.h"
#include "core/base/status.h"
#include "core/base/work_limits.h"
#include "devices/api/device.h"
#include "server/worker/supervisor.h"

namespace uopd::engine {

class KernelCompiler {
 public:
  // `supervisor` outlives this object. Null: compiles in this process (for tests and replays).
  KernelCompiler(worker::Supervisor* supervisor, std::chrono::milliseconds time_limit)
      : supervisor_(supervisor), time_limit_(time_limit) {}

  // `kernel` is the name for errors. `draft`: by Compiler::CompileDraft. CANCELLED: Stop was
  // called. CANCELLED or DEADLINE_EXCEEDED: `limits` ended the call. A compile in this process
  // cannot be ended early.
  absl::StatusOr<std::string> Compile(const devices::Device& device, const std::string& kernel,
                                      const std::string& source, const WorkLimits& limits = {},
                                      bool draft = false);
  // Ends the compiles that run in workers, and refuses new ones.
  void Stop() { stopped_.store(true); }

 private:
  absl::StatusOr<std::string> CompileHere(const devices::Device& device, const std::string& source,
                                          bool draft) const;

  worker::Supervisor* const supervisor_;
  const std::chrono::milliseconds time_limit_;
  std::atomic<bool> stopped_{false};
};

}  // namespace uopd::engine
