// SPDX-License-Identifier: MIT
#include "tests/chaos/monitor.h"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <fstream>

#include "core/base/text.h"
#include "tests/chaos/machine.h"
#include "tests/chaos/sockets.h"

namespace uopd::chaos {
namespace {

// If the machine wakes threads later than this, the machine decides how long an answer takes, not
// the daemon.
constexpr double kLateMs = 20;
// On a machine that wakes threads in time, an answer must take this many times the limit to be a
// violation ...
constexpr double kHard = 10;
// ... and on any other machine it must take at least this long.
constexpr double kHardMs = 5000;

}  // namespace

double ResidentMiB(pid_t pid) {
  std::ifstream statm(Cat("/proc/", pid, "/statm"));
  long total = 0, resident = 0;
  statm >> total >> resident;
  return static_cast<double>(resident) * static_cast<double>(sysconf(_SC_PAGESIZE)) / (1 << 20);
}

std::string HttpGet(const std::string& host_port, const std::string& path, double limit_s) {
  const double end = Now() + limit_s;
  Socket socket = Socket::Connect(host_port);
  if (!socket.ok() || !socket.Send(Cat("GET ", path, " HTTP/1.0\r\n\r\n"))) return "";
  std::string out;
  char buffer[16384];
  for (;;) {
    pollfd wait{socket.fd(), POLLIN, 0};
    const double left = end - Now();
    if (left <= 0 || poll(&wait, 1, static_cast<int>(left * 1e3) + 1) != 1) return "";
    const ssize_t n = recv(socket.fd(), buffer, sizeof buffer, 0);
    if (n < 0) return "";
    if (n == 0) return out;
    out.append(buffer, static_cast<size_t>(n));
  }
}

double MetricOf(const std::string& page, const std::string& series) {
  const size_t at = page.find("\n" + series + " ");
  return at == std::string::npos ? -1 : std::atof(page.c_str() + at + series.size() + 2);
}

Monitor::Monitor(World& world, MonitorLimits limits)
    : world_(world), limits_(limits), watch_([this] { Watch(); }), lag_([this] { Lag(); }) {}

void Monitor::Lag() {
  Machine machine;
  double next = Now() + 1;
  while (!world_.Over()) {
    const double start = Now();
    if (start >= next) {
      world_.report().Sample("machine_slowdown", machine.Slowdown());
      next = start + 1;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    world_.report().Sample("machine_lag_ms", (Now() - start) * 1e3 - 10);
  }
}

void Monitor::Watch() {
  Report& report = world_.report();
  double peak = 0;
  while (world_.Pause(0.25)) {
    const auto place = world_.Where();
    if (!place) return;
    const double start = Now();
    const std::string page = HttpGet(place->http, "/metrics", kHardMs / 1e3);
    const double ms = (Now() - start) * 1e3;
    if (world_.generation() != place->generation || world_.Over()) continue;
    report.Sample("metrics_ms", ms);
    if (ms > limits_.metrics_ms) report.Count("metrics_late");
    const double lag = Percentile(report.SamplesOf("machine_lag_ms"), 0.99);
    if (page.empty() || (lag < kLateMs && ms > kHard * limits_.metrics_ms)) {
      report.Violation("metrics_late", Cat("/metrics takes ", ms, " ms"));
    }
    const double resident = ResidentMiB(place->pid);
    if (resident > peak) report.Figure("resident_mib", peak = resident);
    if (limits_.memory_mib > 0 && resident > limits_.memory_mib) {
      report.Violation("memory", Cat("the daemon has ", resident, " MiB"));
    }
    // What the daemon itself calls a bug is a violation.
    for (size_t at = page.find("\nuopd_bugs_total{"); at != std::string::npos;
         at = page.find("\nuopd_bugs_total{", at + 1)) {
      const std::string line = page.substr(at + 1, page.find('\n', at + 1) - at - 1);
      if (std::atof(line.c_str() + line.rfind(' ')) > 0) report.Count(line);
    }
  }
}

}  // namespace uopd::chaos
