// SPDX-License-Identifier: MIT
// The fork server of this test program and the misbehaving jobs that its workers know.
#pragma once
#include "server/worker/fork/fork_server.h"
#include "server/worker/supervisor.h"

namespace uopd::worker {

ForkServer& Forks();

// StandardJobs, and:
//   echo    the payload                     fail    NOT_FOUND
//   pid     of the worker                   fds     numbers of the open descriptors
//   limits  RLIMIT_CORE, RLIMIT_AS          hang    for ever
//   signal  kills itself by signal PAYLOAD  exit    ends itself with code PAYLOAD
//   throw   std::runtime_error              leak    allocates until it cannot
//   babble  writes noise to its socket      lie     answers with a frame that is no answer
//   mute    closes its socket, then hangs   nice    of the worker
//   gpu     as "measure" on CUDA:0, which is the fake of NVIDIA's driver (fake_cuda.h)
//   spin    computes for PAYLOAD ms of its own time, then answers with PAYLOAD
inline constexpr char kEcho[] = "echo";
inline constexpr char kGpu[] = "gpu";
absl::StatusOr<std::string> MeasureOnFakeGpu(WorkerState& state, std::string_view payload);

inline Supervisor::Options PoolOf(int workers) {
  Supervisor::Options options;
  options.max_workers = workers;
  options.setup.cpu_threads = 2;
  options.look = std::chrono::milliseconds(20);
  options.exit_limit = std::chrono::milliseconds(500);
  return options;
}

}  // namespace uopd::worker
