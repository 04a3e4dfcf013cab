// SPDX-License-Identifier: MIT
// Monitor: measures the daemon while the actors act: how soon /metrics and /healthz answer, and how
// much memory the daemon has. It also measures how late this machine wakes a thread, and what other
// programs take of it; late answers are excused by that.
#pragma once
#include <thread>

#include "tests/chaos/world.h"

namespace uopd::chaos {

struct MonitorLimits {
  double metrics_ms = 100;  // limit of an answer of /metrics
  double memory_mib = 0;    // limit of the daemon's resident memory; 0: none
};

class Monitor {
 public:
  Monitor(World& world, MonitorLimits limits);
  ~Monitor() = default;  // REQUIRES: the world is over

 private:
  void Watch();
  void Lag();

  World& world_;
  const MonitorLimits limits_;
  std::jthread watch_, lag_;
};

// Resident memory of a process; 0 if the process has ended.
double ResidentMiB(pid_t pid);

// One GET with a deadline; empty when there is no answer in time.
std::string HttpGet(const std::string& host_port, const std::string& path, double limit_s);
// The value of a series on a page of metrics; -1 if the page does not have it.
double MetricOf(const std::string& page, const std::string& series);

}  // namespace uopd::chaos
