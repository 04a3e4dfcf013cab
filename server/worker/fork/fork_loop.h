// SPDX-License-Identifier: MIT
// The fork server's own side: a small process with one thread. It forks the workers.
//
//   int main(int argc, char** argv) {
//     worker::BecomeForkServer(argc, argv, StandardJobs());   // first statement of main
//
// Why a separate process: a process with threads, gRPC and open drivers cannot fork safely, and a
// worker forked from it would inherit its memory and descriptors. The fork server has nothing open
// except its control socket. A worker gets stderr and its own socket. The fork server ends with the
// daemon, and its workers end with it.
#pragma once
#include <vector>

#include "server/worker/worker_process.h"

namespace uopd::worker {

// Returns at once unless this process was started as a fork server (fork_server.h). In that case it
// serves as one and then exits. The workers know no other jobs than those of `handlers`.
void BecomeForkServer(int argc, char** argv, const std::vector<JobHandler>& handlers);

}  // namespace uopd::worker
