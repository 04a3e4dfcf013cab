// SPDX-License-Identifier: MIT
#include "client/cli/self/command_tree.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cctype>

#include "absl/strings/str_split.h"
#include "core/base/text.h"

namespace uopd::cli {
namespace {

// Those of "TEXT:{a,b}" (OneOf in checks.h).
std::vector<std::string> ValuesOf(const std::string& type_name) {
  const size_t open = type_name.find('{'), close = type_name.rfind('}');
  if (open == std::string::npos || close == std::string::npos) return {};
  return absl::StrSplit(type_name.substr(open + 1, close - open - 1), ',');
}

OptionInfo DescribeOption(const CLI::Option& option) {
  OptionInfo out;
  out.positional = option.get_positional();
  if (out.positional) {
    out.name = option.get_single_name();
    std::ranges::transform(out.name, out.name.begin(),
                           [](unsigned char c) { return std::toupper(c); });
  } else {
    out.name = Cat("--", option.get_lnames().front());
  }
  out.help = option.get_description();
  out.default_text = option.get_default_str();
  out.values = ValuesOf(option.get_type_name());
  out.required = option.get_required();
  out.takes_value = option.get_items_expected_max() != 0;
  out.repeats = option.get_items_expected_max() > 1;
  return out;
}

CommandInfo DescribeUnder(const CLI::App& app, std::vector<std::string> path) {
  CommandInfo out;
  out.path = std::move(path);
  out.help = app.get_description();
  for (const CLI::Option* option : app.get_options()) {
    if (option->get_positional() || !option->get_lnames().empty())
      out.options.push_back(DescribeOption(*option));
  }
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; })) {
    std::vector<std::string> below = out.path;
    below.push_back(command->get_name());
    out.commands.push_back(DescribeUnder(*command, std::move(below)));
  }
  return out;
}

void AddAll(const CommandInfo& command, std::vector<const CommandInfo*>& out) {
  out.push_back(&command);
  for (const CommandInfo& below : command.commands) AddAll(below, out);
}

}  // namespace

std::string CommandInfo::name() const {
  std::string out;
  for (const std::string& part : path) Append(out, out.empty() ? "" : " ", part);
  return out;
}

CommandInfo Describe(const CLI::App& app) { return DescribeUnder(app, {}); }

std::vector<const CommandInfo*> AllOf(const CommandInfo& command) {
  std::vector<const CommandInfo*> out;
  AddAll(command, out);
  return out;
}

}  // namespace uopd::cli
