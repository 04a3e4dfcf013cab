// SPDX-License-Identifier: MIT
// uopctl: runs graphs, inspects the daemon, trains the demo. Exit status: 0, 1 for a failed command,
// 2 for a wrong command line; `replay` has its own (replay.cc).
#include <CLI/CLI.hpp>
#include <cstdio>
#include <cstdlib>

#include "client/cli/command.h"
#include "core/base/status.h"
#include "core/base/text.h"

namespace uopd::cli {

absl::StatusOr<client::ConnectOptions> Globals::ConnectOptions() const {
  client::ConnectOptions options;
  options.address = address;
  options.timeout = absl::Seconds(timeout_s);
  options.client_name = "uopctl 0.1";
  if (!token_file.empty()) {
    UOPD_ASSIGN(options.credentials, client::Credentials::FromFile(token_file));
  }
  return options;
}

absl::StatusOr<std::unique_ptr<client::Session>> Globals::OpenSession() const {
  UOPD_ASSIGN(auto options, ConnectOptions());
  return client::Session::Open(std::move(options));
}

void AddExecution(CLI::App& command, Globals& globals) {
  command
      .add_option_function<uint32_t>(
          "--beam", [&globals](uint32_t width) { globals.execution.beam = width; },
          "tune the kernels after the run, with a search of this width (BEAM)")
      ->check(CLI::Range(0, 64));
  command.add_flag_callback(
      "--ignore-beam-cache", [&globals] { globals.execution.ignore_beam_cache = true; },
      "tune kernels again that were tuned before (IGNORE_BEAM_CACHE)");
  command
      .add_option_function<uint32_t>(
          "--cache-level", [&globals](uint32_t level) { globals.execution.cache_level = level; },
          "use the daemon's cache on disk for 0: nothing, 1: tuning, 2: everything (CACHELEVEL)")
      ->check(CLI::Range(0, 2));
  command.add_flag_callback(
      "--allow-bf16", [&globals] { globals.execution.allow_bf16 = true; },
      "operands of f32 products may be rounded to bf16 (ALLOW_BF16)");
  command.add_flag_callback(
      "--allow-f16", [&globals] { globals.execution.allow_f16 = true; },
      "operands of f32 products may be rounded to f16 (ALLOW_F16)");
  command.add_flag_callback(
      "--allow-tf32", [&globals] { globals.execution.allow_tf32 = true; },
      "operands of f32 products may be rounded to tf32 (ALLOW_TF32)");
  command.add_flag_callback(
      "--reproducible", [&globals] { globals.execution.reproducible = true; },
      "results have the same bits whatever was tuned or kept before (REPRODUCIBLE)");
  command.add_flag_callback(
      "--noopt", [&globals] { globals.execution.noopt = true; },
      "compile kernels without opts (NOOPT)");
}

}  // namespace uopd::cli

int main(int argc, char** argv) {
  uopd::cli::Globals globals;
  const char* address = std::getenv("UOPD_ADDRESS");
  const char* token_file = std::getenv("UOPD_TOKEN_FILE");
  if (token_file != nullptr) globals.token_file = token_file;
  globals.address = address != nullptr && *address != '\0' ? address : "127.0.0.1:50510";

  const auto execution = uopd::client::OptionsFromEnvironment();
  if (!execution.ok()) {
    std::fprintf(stderr, "uopctl: %s\n", uopd::StatusText(execution.status()).c_str());
    return 2;
  }
  globals.execution = *execution;

  CLI::App app("Control of uopd, the tensor graph daemon");
  app.require_subcommand(1);
  app.fallthrough();
  app.add_option("--address", globals.address,
                 "host:port or unix:PATH of the daemon (UOPD_ADDRESS)")
      ->capture_default_str();
  app.add_option("--token-file", globals.token_file,
                 "file whose first line is the token to send with calls (UOPD_TOKEN_FILE)");
  app.add_flag("--json", globals.json, "print results as JSON");
  app.add_option("--timeout", globals.timeout_s, "seconds per call")
      ->capture_default_str()
      ->check(CLI::PositiveNumber);
  uopd::cli::AddDevices(app, globals);
  uopd::cli::AddRun(app, globals);
  uopd::cli::AddPrepare(app, globals);
  uopd::cli::AddProfile(app, globals);
  uopd::cli::AddCache(app, globals);
  uopd::cli::AddMetrics(app, globals);
  uopd::cli::AddQuarantine(app, globals);
  uopd::cli::AddReplay(app, globals);
  uopd::cli::AddTrainMnist(app, globals);
  uopd::cli::AddTune(app, globals);
  uopd::cli::AddViz(app, globals);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    return app.exit(e) == 0 ? 0 : 2;
  }
  if (globals.status.ok()) return globals.exit_code;
  const std::string code = absl::StatusCodeToString(globals.status.code());
  std::fprintf(stderr, "uopctl: %s: %s\n", code.c_str(), uopd::StatusText(globals.status).c_str());
  return globals.exit_code != 0 ? globals.exit_code : 1;
}
