// SPDX-License-Identifier: MIT
// Completions and manual pages, made from the commands of uopctl as they are.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <CLI/CLI.hpp>
#include <set>

#include "client/cli/app.h"
#include "client/cli/self/command_tree.h"
#include "client/cli/self/completion.h"
#include "client/cli/self/man_page.h"
#include "core/base/config/config.h"

namespace uopd::cli {
namespace {

using ::testing::HasSubstr;

class SelfTest : public ::testing::Test {
 protected:
  Globals globals_;
  const std::unique_ptr<CLI::App> app_ = MakeApp(globals_);
  const CommandInfo program_ = Describe(*app_);
};

TEST_F(SelfTest, TheTreeHasCommandsOptionsAndTheirValues) {
  std::set<std::string> names;
  for (const CommandInfo* command : AllOf(program_)) {
    names.insert(command->name());
    EXPECT_NE(command->help, "") << command->name();
    for (const OptionInfo& option : command->options)
      EXPECT_NE(option.help, "") << command->name() << " " << option.name;
  }
  for (const char* name : {"cache ls", "cache warm", "cluster", "completion", "config", "diagnose",
                           "drain", "man", "sessions", "status", "tune attach"})
    EXPECT_TRUE(names.contains(name)) << name;
  for (const CommandInfo* command : AllOf(program_)) {
    if (command->name() != "cache ls") continue;
    for (const OptionInfo& option : command->options) {
      if (option.name == "--pinned") {
        EXPECT_FALSE(option.takes_value);
      }
      if (option.name != "--by") continue;
      EXPECT_TRUE(option.takes_value);
      EXPECT_THAT(option.values, ::testing::Contains("saved"));
    }
  }
}

TEST_F(SelfTest, ThePagesHaveEveryCommandOptionAndSetting) {
  const std::string page = UopctlPage(program_);
  for (const CommandInfo* command : AllOf(program_)) {
    if (!command->commands.empty()) continue;
    EXPECT_THAT(page, HasSubstr("\\fBuopctl " + command->name().substr(0, 4)));
    for (const OptionInfo& option : command->options) {
      if (option.positional || option.name == "--help") continue;
      std::string escaped;
      for (const char c : option.name) escaped += c == '-' ? std::string("\\-") : std::string(1, c);
      EXPECT_THAT(page, HasSubstr("\\fB" + escaped + "\\fR")) << command->name();
    }
  }
  const std::string daemon = UopdPage();
  EXPECT_THAT(daemon, HasSubstr(".TP\n\\fB\\-\\-config FILE\\fR\nsettings in TOML"));
  for (const SettingSpec& setting : Settings()) EXPECT_THAT(daemon, HasSubstr(setting.Variable()));
}

TEST_F(SelfTest, TheChosenCommandIsKnownAfterAnErrorToo) {
  const std::vector<const char*> args = {"uopctl", "cache", "ls", "--limit", "-5"};
  EXPECT_THROW(app_->parse(static_cast<int>(args.size()), args.data()), CLI::ParseError);
  EXPECT_EQ(ChosenCommand(*app_), "cache ls");
}

TEST_F(SelfTest, CompletionsNameEveryCommand) {
  const std::string bash = BashCompletion(program_), zsh = ZshCompletion(program_);
  for (const CommandInfo* command : AllOf(program_)) {
    EXPECT_THAT(bash, HasSubstr("'" + command->name() + "')"));
    EXPECT_THAT(zsh, HasSubstr("'" + command->name() + "')"));
  }
}

}  // namespace
}  // namespace uopd::cli
