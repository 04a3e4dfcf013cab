// SPDX-License-Identifier: MIT
#include "client/cli/checks.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <span>
#include <string>
#include <vector>

namespace uopd::cli {
namespace {

struct Row {
  const char* text;
  bool good;
};

void ExpectRows(const CLI::Validator& check, std::span<const Row> rows) {
  for (const Row& row : rows) {
    std::string text = row.text;
    EXPECT_EQ(check(text).empty(), row.good) << row.text;
    EXPECT_EQ(text, row.text);
  }
}

bool Parses(CLI::App& command, std::vector<std::string> arguments) {
  std::ranges::reverse(arguments);  // CLI11 takes them from the end
  try {
    command.parse(std::move(arguments));
    return true;
  } catch (const CLI::ParseError&) {
    return false;
  }
}

TEST(ChecksTest, NumbersAreFiniteWholeAndInTheirRange) {
  constexpr auto kWhole = std::to_array<Row>({{"1", true},
                                              {"64", true},
                                              {"0", false},
                                              {"65", false},
                                              {"-1", false},
                                              {"1.5", false},
                                              {"nan", false},
                                              {"inf", false},
                                              {"18446744073709551615", false},
                                              {"1x", false},
                                              {"", false}});
  ExpectRows(NumberIn(1, 64), kWhole);
  constexpr auto kSeconds =
      std::to_array<Row>({{"0.5", true}, {"1e3", true}, {"nan", false}, {"-0.1", false}});
  ExpectRows(NumberIn(0, 1e6, false), kSeconds);
}

TEST(ChecksTest, NamesAreThoseOfTheList) {
  const CLI::Validator check = OneOf({"bash", "zsh"});
  std::string text = "bash";
  EXPECT_EQ(check(text), "");
  text = "fish";
  EXPECT_EQ(check(text), "`fish` is none of {bash,zsh}");
  EXPECT_EQ(check.get_description(), "{bash,zsh}");
}

TEST(ChecksTest, IdsAreHexadecimal) {
  const std::string longest(64, 'f'), too_long(65, 'f');
  const std::array<Row, 6> rows = {
      Row{"0a", true},          {"AB", true}, {"", false}, {"xyz", false}, {longest.c_str(), true},
      {too_long.c_str(), false}};
  ExpectRows(HexDigits(), rows);
}

TEST(ChecksTest, AddressesHaveAPort) {
  constexpr auto kHosts = std::to_array<Row>({{"127.0.0.1:50510", true},
                                              {"[::1]:1", true},
                                              {"host:65535", true},
                                              {"host", false},
                                              {"host:", false},
                                              {":50510", false},
                                              {"host:0", false},
                                              {"host:65536", false},
                                              {"host:-1", false}});
  ExpectRows(DaemonAddress(), kHosts);
  for (const Row& row : kHosts) {
    CLI::App command;
    std::string http;
    AddHttpOption(command, http);
    EXPECT_EQ(Parses(command, {"--http", row.text}), row.good) << row.text;
  }
  constexpr auto kDaemons = std::to_array<Row>(
      {{"unix:/run/uopd/socket", true}, {"unix:", false}, {"dns:///host:1", true}});
  ExpectRows(DaemonAddress(), kDaemons);
}

}  // namespace
}  // namespace uopd::cli
