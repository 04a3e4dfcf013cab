// SPDX-License-Identifier: MIT
// uopctl sessions, uopctl config: who uses the daemon, and how it is set.
#include <CLI/CLI.hpp>
#include <cstdio>

#include "client/cli/cache/cache_flags.h"
#include "client/cli/checks.h"
#include "client/cli/command.h"
#include "client/cli/operate/views.h"

namespace uopd::cli {
namespace {

constexpr double kMostSessions = 1000;

struct SessionFlags {
  std::string tenant;
  uint32_t limit = static_cast<uint32_t>(kMostSessions);
};

absl::Status ShowSessions(Globals& globals, const SessionFlags& flags) {
  UOPD_ASSIGN(const auto session, globals.Connect());
  v1::ListSessionsRequest request;
  request.set_tenant(flags.tenant);
  request.set_most(flags.limit);
  UOPD_ASSIGN(const v1::ListSessionsResponse found, session->ListSessions(request));
  globals.data = ToJson(found);
  if (globals.json) return absl::OkStatus();
  std::printf("%-8s %-12s %-22s %9s %9s %8s %10s %6s  %s\n", "session", "tenant", "peer", "age",
              "idle", "buffers", "held", "calls", "runs");
  for (const v1::SessionStatus& one : found.sessions()) {
    const std::string runs =
        one.running().empty() ? "" : one.running() + " for " + TimeText(one.running_seconds());
    std::printf("%-8s %-12s %-22s %9s %9s %8llu %10s %6u  %s\n", one.id_prefix().c_str(),
                one.tenant().c_str(), one.peer().c_str(), TimeText(one.age_seconds()).c_str(),
                TimeText(one.idle_seconds()).c_str(),
                static_cast<unsigned long long>(one.buffers()), BytesText(one.bytes()).c_str(),
                one.calls(), runs.c_str());
  }
  if (found.left_out() > 0) {
    std::printf("and %llu more, which hold less\n",
                static_cast<unsigned long long>(found.left_out()));
  }
  return absl::OkStatus();
}

absl::Status ShowSettings(Globals& globals, bool only_changed) {
  UOPD_ASSIGN(const auto session, globals.Connect());
  UOPD_ASSIGN(const v1::ListSettingsResponse found, session->ListSettings());
  globals.data = ToJson(found, only_changed);
  if (globals.json) return absl::OkStatus();
  for (const auto& setting : globals.data["settings"]) {
    std::printf("%-38s %-11s %s\n", setting["key"].get<std::string>().c_str(),
                setting["source"].get<std::string>().c_str(),
                setting["value"].get<std::string>().c_str());
  }
  return absl::OkStatus();
}

}  // namespace

void AddSessions(CLI::App& app, Globals& globals) {
  auto flags = std::make_shared<SessionFlags>();
  CLI::App* command =
      app.add_subcommand("sessions", "open sessions, those that hold the most memory first");
  command->add_option("--tenant", flags->tenant, "only those of this tenant");
  command->add_option("--limit", flags->limit, "sessions to show")
      ->capture_default_str()
      ->check(NumberIn(1, kMostSessions));
  command->callback([&globals, flags] { globals.status = ShowSessions(globals, *flags); });
}

void AddConfig(CLI::App& app, Globals& globals) {
  auto only_changed = std::make_shared<bool>(false);
  CLI::App* command =
      app.add_subcommand("config",
                         "every setting that is in effect, and where it comes from: default, file, "
                         "environment or flag");
  command->add_flag("--changed", *only_changed, "only those that are not at their defaults");
  command->callback(
      [&globals, only_changed] { globals.status = ShowSettings(globals, *only_changed); });
}

}  // namespace uopd::cli
