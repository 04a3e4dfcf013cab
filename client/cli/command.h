// SPDX-License-Identifier: MIT
// What the commands of uopctl share: the global flags, and how a command is added to the command
// line.
//
// A command is a function that adds its subcommand to the App. When the user chooses the
// subcommand, its callback leaves a Status in Globals. Results go to stdout, progress and errors to
// stderr.
#pragma once
#include <memory>
#include <string>

#include "client/cpp/net/session.h"
#include "uopd/connection.h"
#include "uopd/options.h"

namespace CLI {
class App;
}

namespace uopd::cli {

struct Globals {
  std::string address;
  std::string token_file;  // empty: no token
  bool json = false;
  double timeout_s = 600;
  client::ExecutionOptions execution;  // set by flags and environment
  absl::Status status;                 // of the command that ran
  int exit_code = 0;  // not 0: exit status of the process, instead of one from `status`

  absl::StatusOr<client::ConnectOptions> ConnectOptions() const;
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
void AddMetrics(CLI::App& app, Globals& globals);
void AddQuarantine(CLI::App& app, Globals& globals);
void AddReplay(CLI::App& app, Globals& globals);
void AddTune(CLI::App& app, Globals& globals);
void AddTrainMnist(CLI::App& app, Globals& globals);
void AddViz(CLI::App& app, Globals& globals);

// Adds the flags that set Globals::execution, for a command that runs graphs.
void AddExecution(CLI::App& command, Globals& globals);

}  // namespace uopd::cli
