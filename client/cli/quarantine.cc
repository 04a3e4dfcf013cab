// SPDX-License-Identifier: MIT
// uopctl quarantine list, uopctl quarantine clear [ID]: jobs that the daemon does not run again.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <ctime>

#include "client/cli/checks.h"
#include "client/cli/command.h"
#include "client/cli/operate/views.h"

namespace uopd::cli {
namespace {

std::string Time(uint64_t unix_s) {
  if (unix_s == 0) return "-";
  const auto seconds = static_cast<time_t>(unix_s);
  tm parts{};
  gmtime_r(&seconds, &parts);
  char text[32];
  return {text, strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &parts)};
}

absl::Status List(Globals& globals) {
  UOPD_ASSIGN(const auto session, globals.Connect());
  UOPD_ASSIGN(const v1::ListQuarantineResponse found, session->ListQuarantine());
  if (globals.json) {
    globals.data = ToJson(found);
    return absl::OkStatus();
  }
  for (const v1::QuarantinedJob& job : found.jobs()) {
    std::printf("%.16s  %-8s %-20s  %s%s\n", job.id().c_str(), job.pool().c_str(),
                Time(job.since_unix_s()).c_str(), job.reason().c_str(),
                job.passing() ? " (for a while)" : "");
  }
  return absl::OkStatus();
}

absl::Status Clear(Globals& globals, const std::string& id) {
  UOPD_ASSIGN(const auto session, globals.Connect());
  v1::ClearQuarantineRequest request;
  request.set_id(id);
  UOPD_ASSIGN(const v1::ClearQuarantineResponse response, session->ClearQuarantine(request));
  const uint64_t cleared = response.cleared();
  if (globals.json) {
    globals.data = {{"cleared", cleared}};
  } else {
    std::printf("%llu cleared\n", static_cast<unsigned long long>(cleared));
  }
  return absl::OkStatus();
}

}  // namespace

void AddQuarantine(CLI::App& app, Globals& globals) {
  CLI::App* quarantine = app.add_subcommand(
      "quarantine", "jobs that killed a worker process of the daemon and are not run again");
  quarantine->require_subcommand(1);
  quarantine->add_subcommand("list", "id, pool of workers, since when, why")->callback([&globals] {
    globals.status = List(globals);
  });
  CLI::App* clear = quarantine->add_subcommand("clear", "allow one job, or all, to be tried again");
  auto id = std::make_shared<std::string>();
  clear->add_option("id", *id, "id of a listed job, or its first digits; absent: all jobs")
      ->check(HexDigits());
  clear->callback([&globals, id] { globals.status = Clear(globals, *id); });
}

}  // namespace uopd::cli
