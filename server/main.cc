// SPDX-License-Identifier: MIT
// uopd: the daemon with the standard jobs.
#include "server/run_daemon.h"
#include "server/worker/standard_jobs.h"

int main(int argc, char** argv) {
  return uopd::RunDaemon(argc, argv, uopd::worker::StandardJobs());
}
