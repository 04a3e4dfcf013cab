// SPDX-License-Identifier: MIT
// The commands and options of a program as plain data, read from CLI11's own tree.
#pragma once
#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace uopd::cli {

struct OptionInfo {
  std::string name;  // "--by"; of a positional argument "KEY"
  std::string help, default_text;
  std::vector<std::string> values;  // those that it may have; empty: any
  bool positional = false, required = false;
  bool takes_value = false;  // false: a flag
  bool repeats = false;      // may be given several times
};

struct CommandInfo {
  std::vector<std::string> path;  // {"cache", "ls"}; empty: the program
  std::string help;
  std::vector<OptionInfo> options;  // without those of the commands above
  std::vector<CommandInfo> commands;

  std::string name() const;  // "cache ls"
};

CommandInfo Describe(const CLI::App& app);
// The command and all below it, in the order of the tree.
std::vector<const CommandInfo*> AllOf(const CommandInfo& command);

}  // namespace uopd::cli
