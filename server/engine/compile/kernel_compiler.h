// SPDX-License-Identifier: MIT
// The source text of a kernel to object bytes, in a worker process.
//
// What aborts, crashes or does not end in a compiler costs a worker and this kernel, and not the
// daemon: the answer is INTERNAL and names the kernel, and the same text is refused at once from
// then on (server/worker/quarantine.h). A compile that nobody waits for any more is ended with its
// worker, and nobody is to blame.
//
// When no worker can be had (the machine cannot fork), or something outside kills the workers of
// one kernel again and again, the answer is UNAVAILABLE: nothing is compiled in the daemon's own
// process, which a compiler could take along.
//
// Thread-safe; calls run in parallel, as many as the pool has workers.
#pragma once
#include <atomic>
#include <chrono>
#include <string>

#include "cache/store.h"
#include "core/base/status.h"
#include "devices/api/device.h"
#include "server/worker/supervisor.h"

namespace uopd::engine {

class KernelCompiler {
 public:
  // `workers` outlives this; null: compiles in this process (tests, and replaying a failure).
  KernelCompiler(worker::Supervisor* workers, std::chrono::milliseconds time_limit)
      : workers_(workers), time_limit_(time_limit) {}

  // `kernel` is the name for errors. CANCELLED after Stop, CANCELLED or DEADLINE_EXCEEDED as
  // `limits` says; in this process a compile that runs ends by itself alone.
  absl::StatusOr<std::string> Compile(const devices::Device& device, const std::string& kernel,
                                      const std::string& source,
                                      const cache::WaitLimits& limits = {});
  // Ends what runs in workers and refuses the rest.
  void Stop() { stopped_.store(true); }

 private:
  absl::StatusOr<std::string> CompileHere(const devices::Device& device,
                                          const std::string& source) const;

  worker::Supervisor* const workers_;
  const std::chrono::milliseconds time_limit_;
  std::atomic<bool> stopped_{false};
};

}  // namespace uopd::engine
