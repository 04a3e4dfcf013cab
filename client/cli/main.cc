// SPDX-License-Identifier: MIT
// uopctl: runs graphs, looks after the daemon, trains the demo. Exit statuses are those of
// exit_codes.h; `replay` has its own (replay.cc).
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <iostream>
#include <span>
#include <string_view>

#include "client/cli/app.h"
#include "client/cli/envelope.h"
#include "core/base/status.h"
#include "core/base/text.h"

namespace uopd::cli {
namespace {

// The exit status. A result that nobody got is a failure, such as one for a full disk.
int AsPrinted(int exit_status) {
  std::cout.flush();
  if (std::cout.good() && std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return exit_status;
  std::fprintf(stderr, "uopctl: the result cannot be written to standard output\n");
  return std::max(exit_status, Info(End::kFailed).exit_code);
}

// Says how the command ended. Returns the exit status.
int Finish(const Globals& globals, const CommandEnd& end) {
  if (globals.json) {
    std::printf("%s\n", LineOf(Envelope(end, globals.data)).c_str());
  } else if (!end.status.ok()) {
    std::fprintf(stderr, "uopctl: %s: %s\n", absl::StatusCodeToString(end.status.code()).c_str(),
                 WithoutControls(StatusText(end.status), "\n\t").c_str());
  } else if (!end.bad.empty() && !end.exit_code) {
    std::fprintf(stderr, "uopctl: %s\n", end.bad.c_str());
  }
  return AsPrinted(end.exit_status());
}

// CLI11 says only that a command is missing where a word is none.
std::string WhatIsWrong(const CLI::App& app, const CLI::ParseError& error) {
  const std::vector<std::string> rest = app.remaining(true);
  if (error.get_name() == "RequiredError" && !rest.empty())
    return Cat("there is no command `", rest.front(), "`; --help lists them");
  return Cat(error.what(), "; --help says more");
}

int Main(std::span<char*> args) {
  Globals globals;
  const std::unique_ptr<CLI::App> app = MakeApp(globals);
  // The command line may be wrong before CLI11 comes to --json.
  const auto is_json = [](const char* arg) { return std::string_view(arg) == "--json"; };
  const bool json = std::any_of(args.begin() + 1, args.end(), is_json);
  const auto execution = client::OptionsFromEnvironment();
  if (!execution.ok()) {
    globals.json = json;
    return Finish(globals, {.command = "", .status = execution.status()});
  }
  globals.execution = *execution;
  try {
    app->parse(static_cast<int>(args.size()), args.data());
  } catch (const CLI::ParseError& e) {
    if (e.get_exit_code() == 0) {  // --help, --version
      app->exit(e);
      return AsPrinted(0);
    }
    globals.json = json;
    globals.data = nullptr;
    return Finish(globals,
                  {.command = ChosenCommand(*app), .status = Invalid(WhatIsWrong(*app, e))});
  }
  return Finish(globals, {.command = ChosenCommand(*app),
                          .status = globals.status,
                          .bad = globals.bad,
                          .exit_code = globals.exit_code});
}

}  // namespace
}  // namespace uopd::cli

int main(int argc, char** argv) {
  return uopd::cli::Main(std::span(argv, static_cast<size_t>(argc)));
}
