// SPDX-License-Identifier: MIT
// The fork servers of this test program, started by its main before anything else, and the
// misbehaving jobs that their workers know.
#pragma once
#include "server/worker/fork_server.h"
#include "server/worker/supervisor.h"

namespace uopd::worker {

ForkServer& Forks();
ForkServer& DoomedForks();  // for the one test that kills it

// StandardJobs, and:
//   echo    the payload                     fail    NOT_FOUND
//   pid     of the worker                   fds     numbers of the open descriptors
//   limits  RLIMIT_CORE, RLIMIT_AS          hang    for ever
//   signal  kills itself by signal PAYLOAD  exit    ends itself with code PAYLOAD
//   throw   std::runtime_error              leak    allocates until it cannot
//   babble  writes noise to its socket      lie     answers with a frame that is no answer
//   mute    closes its socket, then hangs
inline constexpr char kEcho[] = "echo";

inline Supervisor::Options PoolOf(int workers) {
  Supervisor::Options options;
  options.max_workers = workers;
  options.setup.cpu_threads = 2;
  return options;
}

}  // namespace uopd::worker
