// SPDX-License-Identifier: MIT
#include "client/cli/app.h"

#include <CLI/CLI.hpp>

#include "client/cli/checks.h"
#include "core/base/status.h"
#include "core/base/text.h"

namespace uopd::cli {

absl::StatusOr<client::ConnectOptions> Globals::ConnectOptions() const {
  client::ConnectOptions options;
  options.address = address;
  options.timeout = absl::Seconds(timeout_s);
  options.client_name = "uopctl " UOPD_VERSION;
  if (!token_file.empty()) {
    UOPD_ASSIGN(options.credentials, client::Credentials::FromFile(token_file));
  }
  return options;
}

absl::StatusOr<std::unique_ptr<client::Session>> Globals::Connect() const {
  UOPD_ASSIGN(auto options, ConnectOptions());
  return client::Session::Connect(std::move(options));
}

absl::StatusOr<std::unique_ptr<client::Session>> Globals::OpenSession() const {
  UOPD_ASSIGN(auto options, ConnectOptions());
  return client::Session::Open(std::move(options));
}

std::unique_ptr<CLI::App> MakeApp(Globals& globals) {
  auto app = std::make_unique<CLI::App>("Control of uopd, the tensor graph daemon", "uopctl");
  app->require_subcommand(1);
  app->fallthrough();
  app->set_version_flag("--version", std::string("uopctl " UOPD_VERSION),
                        "print the version and exit");
  app->add_option("--address", globals.address,
                  "host:port or unix:PATH of the daemon (UOPD_ADDRESS)")
      ->envname("UOPD_ADDRESS")
      ->capture_default_str()
      ->check(DaemonAddress());
  app->add_option("--token-file", globals.token_file,
                  "file whose first line is the token to send with calls (UOPD_TOKEN_FILE)")
      ->envname("UOPD_TOKEN_FILE");
  app->add_flag("--json", globals.json, "print one object of JSON, errors too");
  app->add_option("--timeout", globals.timeout_s, "seconds per call")
      ->capture_default_str()
      ->check(NumberIn(0.001, kMostSeconds, false));
  AddCache(*app, globals);
  AddCluster(*app, globals);
  AddCompletion(*app, globals);
  AddConfig(*app, globals);
  AddDevices(*app, globals);
  AddDiagnose(*app, globals);
  AddDrain(*app, globals);
  AddMan(*app, globals);
  AddMetrics(*app, globals);
  AddPrepare(*app, globals);
  AddProfile(*app, globals);
  AddQuarantine(*app, globals);
  AddReplay(*app, globals);
  AddRun(*app, globals);
  AddSessions(*app, globals);
  AddStatus(*app, globals);
  AddTrainMnist(*app, globals);
  AddTune(*app, globals);
  AddViz(*app, globals);
  return app;
}

std::string ChosenCommand(const CLI::App& app) {
  std::string out;
  for (const CLI::App* at = &app;;) {
    const auto chosen = at->get_subcommands();
    if (chosen.empty()) return out;
    at = chosen.front();
    Append(out, out.empty() ? "" : " ", at->get_name());
  }
}

}  // namespace uopd::cli
