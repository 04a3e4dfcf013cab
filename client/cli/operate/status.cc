// SPDX-License-Identifier: MIT
// uopctl status, uopctl cluster: how the daemon is, on one page. Exit status 1 if it is not well.
#include <CLI/CLI.hpp>
#include <cstdio>

#include "client/cli/command.h"
#include "client/cli/operate/views.h"
#include "core/base/text.h"

namespace uopd::cli {
namespace {

absl::Status ShowStatus(Globals& globals) {
  UOPD_ASSIGN(const auto session, globals.Connect());
  UOPD_ASSIGN(const v1::GetStatusResponse status, session->GetStatus());
  globals.data = ToJson(status);
  if (!globals.json) std::printf("%s", StatusPage(globals.data).c_str());
  if (status.state() != "ready" && status.state() != "degraded")
    globals.bad = Cat("the daemon is ", status.state());
  return absl::OkStatus();
}

absl::Status ShowCluster(Globals& globals) {
  UOPD_ASSIGN(const auto session, globals.Connect());
  UOPD_ASSIGN(const v1::GetClusterResponse answer, session->GetCluster());
  globals.data = ToJson(answer.cluster());
  if (!globals.json) std::printf("%s", ClusterPage(globals.data).c_str());
  if (answer.cluster().configured() && !answer.cluster().reachable())
    globals.bad = "the server of the cluster does not answer";
  return absl::OkStatus();
}

}  // namespace

void AddStatus(CLI::App& app, Globals& globals) {
  app.add_subcommand("status",
                     "how the daemon is, on one page; exit status 1 if it serves no requests")
      ->callback([&globals] { globals.status = ShowStatus(globals); });
}

void AddCluster(CLI::App& app, Globals& globals) {
  app.add_subcommand(
         "cluster",
         "the server that daemons share, as this daemon sees it; exit status 1 if it is away")
      ->callback([&globals] { globals.status = ShowCluster(globals); });
}

}  // namespace uopd::cli
