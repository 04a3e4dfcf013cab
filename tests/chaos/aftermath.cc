// SPDX-License-Identifier: MIT
#include "tests/chaos/aftermath.h"

#include <sqlite3.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <functional>
#include <thread>

#include "core/base/text.h"
#include "tests/chaos/guest.h"
#include "tests/chaos/monitor.h"
#include "tests/e2e/graphs.h"
#include "tests/support/processes.h"

namespace uopd::chaos {
namespace {

// Seconds for which work may continue after its clients have left. The first is what the daemon
// promises; the second is the limit on a loaded machine.
constexpr double kInFlightLimit = 0.1, kInFlightHard = 5;
constexpr int kBusyMs = 10'000;  // for which a check waits for another process that has the file
// Pools keep some of the descriptors that they opened.
constexpr int kMoreDescriptors = 24;
constexpr double kBeyondDrain = 2;

// Waits until the condition holds, at most `limit`. Returns the seconds that this took.
double Until(double limit, const std::function<bool()>& holds) {
  const double start = Now();
  while (!holds() && Now() - start < limit) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  return Now() - start;
}

void CheckServes(World& world, const std::string& address) {
  const auto stub = Connect(address);
  v1::RunRequest request;
  request.set_graph(e2e::AddGraph(3));
  *request.add_arguments() = Returned();
  *request.add_arguments() = Data(e2e::Bytes({1, 2, 3}));
  *request.add_arguments() = Data(e2e::Bytes({10, 20, 30}));
  grpc::ClientContext context;
  context.set_deadline(In(kPatience));
  v1::RunResponse response;
  const grpc::Status status = stub->Run(&context, request, &response);
  if (!status.ok()) {
    world.report().Violation("serves_no_more", status.error_message());
  } else if (response.data_size() != 1 || response.data(0) != e2e::Bytes({11, 22, 33})) {
    world.report().Violation("wrong_result", "the sum after everything");
  }
}

}  // namespace

void CheckDatabase(Report& report, const std::string& file) {
  sqlite3* db = nullptr;
  std::string answer = "cannot be opened";
  // With the right to write, as a daemon opens it: what a kill in the middle of a commit left in
  // the journal is taken back first.
  if (sqlite3_open_v2(file.c_str(), &db, SQLITE_OPEN_READWRITE, nullptr) == SQLITE_OK &&
      sqlite3_busy_timeout(db, kBusyMs) == SQLITE_OK) {
    sqlite3_stmt* check = nullptr;
    if (sqlite3_prepare_v2(db, "PRAGMA integrity_check", -1, &check, nullptr) == SQLITE_OK &&
        sqlite3_step(check) == SQLITE_ROW) {
      answer = reinterpret_cast<const char*>(sqlite3_column_text(check, 0));
    } else {
      answer = sqlite3_errmsg(db);
    }
    sqlite3_finalize(check);
  }
  sqlite3_close(db);
  report.Count("databases_checked");
  if (answer != "ok") report.Violation("unreadable_file", Cat(file, ": ", answer));
}

void CheckAftermath(World& world, const AftermathLimits& limits) {
  Report& report = world.report();
  const auto place = world.LastPlace();
  const auto metric = [&](const std::string& series) {
    return MetricOf(HttpGet(place.http, "/metrics", 5), series);
  };

  const double in_flight =
      Until(limits.settle_s, [&] { return metric("uopd_rpc_in_flight") == 0; });
  report.Figure("in_flight_zero_after_s", in_flight);
  if (in_flight > kInFlightLimit) report.Count("in_flight_late");
  if (in_flight > kInFlightHard) {
    report.Violation("deadline",
                     Cat("calls are in flight ", in_flight, " s after the last client"));
  }
  CheckServes(world, place.grpc);
  report.Figure("sessions_zero_after_s",
                Until(limits.settle_s, [&] { return metric("uopd_sessions") == 0; }));
  if (const double left = metric("uopd_sessions"); left != 0) {
    report.Violation("sessions_left", Cat(left, " sessions"));
  }
  test::Footprint now;
  Until(limits.settle_s, [&] {
    now = test::FootprintOf(place.pid);
    return now.descriptors <= limits.idle.descriptors + kMoreDescriptors &&
           now.memfds <= limits.idle.memfds;
  });
  report.Figure("descriptors_idle", limits.idle.descriptors);
  report.Figure("descriptors_after", now.descriptors);
  report.Figure("memfds_after", now.memfds);
  report.Figure("resident_mib_after", ResidentMiB(place.pid));
  if (now.descriptors > limits.idle.descriptors + kMoreDescriptors) {
    report.Violation("descriptors_left", Cat(now.descriptors, " after ", limits.idle.descriptors));
  }
  if (now.memfds > limits.idle.memfds) {
    report.Violation("memfds_left", Cat(now.memfds, " after ", limits.idle.memfds));
  }
  report.Figure("stop_s", CheckStop(world, limits.drain_s));
  CheckDeadlines(world);
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(world.data_folder(), error)) {
    if (entry.path().extension() != ".sqlite") continue;
    if (world.IsDamaged(entry.path())) {
      report.Count("databases_damaged");  // by the run's own actors: the next daemon that opens one
                                          // replaces it
    } else {
      CheckDatabase(report, entry.path());
    }
  }
}

double CheckStop(World& world, double drain_s) {
  Report& report = world.report();
  const auto children = test::Descendants(world.LastPlace().pid);
  const double took = world.Stop(drain_s + 10 * kBeyondDrain);
  if (took > drain_s + kBeyondDrain) {
    report.Violation("stop", Cat("the daemon ends ", took, " s after SIGTERM"));
  }
  for (const test::Process& child : children) {
    Until(5, [&] { return !test::IsAlive(child.pid); });
    if (test::IsAlive(child.pid)) report.Violation("processes_left", child.name);
  }
  return took;
}

}  // namespace uopd::chaos
