// SPDX-License-Identifier: MIT
// What the commands of uopctl share: the global flags, and how a command is added to the command
// line.
//
// A command is a function that adds its subcommand to the App. When the user chooses the
// subcommand, its callback leaves a Status in Globals, and with --json its result. Results go to
// stdout, progress and errors to stderr; with --json errors go to stdout, too (envelope.h).
#pragma once
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "client/cpp/net/session.h"
#include "uopd/connection.h"
#include "uopd/options.h"

namespace CLI {
class App;
}

namespace uopd::cli {

struct Globals {
  std::string address = "127.0.0.1:50510";
  std::string token_file;  // empty: no token
  bool json = false;
  double timeout_s = 600;
  client::ExecutionOptions execution;  // set by flags and environment
  // What the command that ran leaves.
  absl::Status status;
  std::string bad;  // not empty: it ran, and this is what it found
  nlohmann::json
      data;  // with --json: its result. Keys of times end in _seconds, those of sizes in _bytes
  std::optional<int> exit_code;  // instead of that of exit_codes.h

  absl::StatusOr<client::ConnectOptions> ConnectOptions() const;
  // For queries alone: it opens no session.
  absl::StatusOr<std::unique_ptr<client::Session>> Connect() const;
  absl::StatusOr<std::unique_ptr<client::Session>> OpenSession() const;
};

void AddDevices(CLI::App& app, Globals& globals);
void AddRun(CLI::App& app, Globals& globals);
void AddPrepare(CLI::App& app, Globals& globals);
void AddProfile(CLI::App& app, Globals& globals);
void AddCache(CLI::App& app, Globals& globals);
// Subcommands of `uopctl cache`.
void AddCacheEntries(CLI::App& cache, Globals& globals);
void AddCacheBundles(CLI::App& cache, Globals& globals);
void AddCacheWarm(CLI::App& cache, Globals& globals);
void AddCluster(CLI::App& app, Globals& globals);
void AddCompletion(CLI::App& app, Globals& globals);
void AddConfig(CLI::App& app, Globals& globals);
void AddDiagnose(CLI::App& app, Globals& globals);
void AddDrain(CLI::App& app, Globals& globals);
void AddMan(CLI::App& app, Globals& globals);
void AddMetrics(CLI::App& app, Globals& globals);
void AddQuarantine(CLI::App& app, Globals& globals);
void AddReplay(CLI::App& app, Globals& globals);
void AddSessions(CLI::App& app, Globals& globals);
void AddStatus(CLI::App& app, Globals& globals);
void AddTune(CLI::App& app, Globals& globals);
void AddTrainMnist(CLI::App& app, Globals& globals);
void AddViz(CLI::App& app, Globals& globals);

// Adds the flags that set Globals::execution, for a command that runs graphs.
void AddExecution(CLI::App& command, Globals& globals);

}  // namespace uopd::cli
