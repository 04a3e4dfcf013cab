// SPDX-License-Identifier: MIT
// The tree of commands and options of uopctl: completions and manual pages are made from it
// (self/command_tree.h).
#pragma once
#include <memory>

#include "client/cli/command.h"

namespace CLI {
class App;
}

namespace uopd::cli {

// `globals` outlives the App.
std::unique_ptr<CLI::App> MakeApp(Globals& globals);
// The commands that the command line chose: "cache ls". After parsing, also after an error in it.
std::string ChosenCommand(const CLI::App& app);

}  // namespace uopd::cli
