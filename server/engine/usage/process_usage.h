// SPDX-License-Identifier: MIT
// Processor time and memory of the daemon and of its child processes, for uopd_process_* and
// uopd_workers_*. Used by one thread.
#pragma once
#include <sys/types.h>

#include <cstdint>
#include <map>
#include <string>

namespace uopd::engine {

// What /proc/PID/stat says of one process.
struct ProcessStat {
  std::string name;
  pid_t parent = -1;
  int64_t cpu_ns = 0;           // of its own threads
  int64_t children_cpu_ns = 0;  // of its children that have ended and were waited for
  int64_t resident_bytes = 0;

  // Parses the text of the file. False: it is no such text.
  bool Parse(const std::string& text);
};

class ProcessUsage {
 public:
  // Sets the metrics. `forks`: the fork server of the workers; -1: there is none now.
  void Publish(pid_t forks);

 private:
  void PublishWorkers(pid_t forks);

  pid_t last_forks_ = -1;
  int64_t last_cpu_ns_ = 0;               // of that fork server and all its children
  std::map<std::string, int64_t> names_;  // resident bytes by name of process
};

}  // namespace uopd::engine
