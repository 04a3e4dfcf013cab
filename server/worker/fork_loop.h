// SPDX-License-Identifier: MIT
// The fork server's own side: a tiny process with one thread that forks the workers.
//
//   int main(int argc, char** argv) {
//     worker::BecomeForkServer(argc, argv, StandardJobs());   // first statement of main
//
// Why a process of its own: one with threads, gRPC and open drivers cannot fork safely, and a
// worker forked from it would inherit its memory and descriptors. This one has nothing open but its
// control socket; a worker gets stderr and its own socket. It ends with the daemon, and its workers
// end with it.
#pragma once
#include <vector>

#include "server/worker/worker_process.h"

namespace uopd::worker {

// Returns at once, unless this process was started as a fork server (fork_server.h): then it serves
// as one and exits. The handlers are the only jobs that the workers will ever know.
void BecomeForkServer(int argc, char** argv, const std::vector<JobHandler>& handlers);

}  // namespace uopd::worker
