// SPDX-License-Identifier: MIT
// How the memory that this process and its workers may use is divided: what clients get when nobody
// has said it, and how many workers may exist. All of them are in the same control group, so their
// sum must stay below its limit: at the limit the kernel kills one of them.
//
//   limit = daemon + workers + clients + what freed buffers keep
//
// The shares are measured (docs/operations/limits.md, "Memory and processors"). Where the limit is
// so small that they do not fit, clients get an eighth; workers are then killed before the daemon
// is.
#pragma once
#include <cstdint>

namespace uopd {

struct MemoryNeeds {
  int64_t limit_bytes = 0;  // of the machine or the control group
  int processors = 1;
  int compile_threads = 0;  // as configured; 0: as many as there is room for
  int tune_workers = 0;     // the same
  bool upgrades = false;    // a second pool of compilers
  int devices = 1;          // each has a process that measures
  int64_t cache_bytes = 0;  // rows of the cache that are kept in memory because there is no file
};

struct MemoryBudget {
  int64_t daemon_bytes = 0;
  int64_t workers_bytes = 0;
  int64_t clients_bytes = 0;
  int compile_threads = 1, tune_workers = 1;
  // A worker that has more than this after a job ends, and the next job gets a new one.
  int64_t worker_retires_bytes = 0;

  static MemoryBudget Of(const MemoryNeeds& needs);
};

}  // namespace uopd
