// SPDX-License-Identifier: MIT
// Lists of opts: what Text writes is read, in each of the two forms, and nothing else is.
#include "core/codegen/opt/parse_opts.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <string>

namespace uopd::codegen {
namespace {

// Each kind, with small, large and negative numbers.
std::vector<Opt> SomeOpts() {
  std::vector<Opt> out;
  for (int kind = 0; kind < kOptKinds; ++kind)
    out.push_back({static_cast<OptKind>(kind), kind - 1, kind % 3 == 0 ? INT64_MAX : 3 - kind});
  return out;
}

TEST(ParseOptsTest, ReadsWhatTextWrites) {
  const std::vector<Opt> opts = SomeOpts();
  std::string spaces, pluses;
  for (const Opt& opt : opts) {
    const std::string text = Text(opt);
    spaces += (spaces.empty() ? "" : " ") + text;
    std::string other = text;
    other.replace(other.find(", "), 2, ";");
    pluses += (pluses.empty() ? "" : "+") + other;
  }
  for (const std::string& text : {spaces, pluses, "  " + spaces + " "}) {
    const auto parsed = ParseOpts(text);
    ASSERT_TRUE(parsed.ok()) << parsed.status();
    EXPECT_EQ(*parsed, opts) << text;
  }
  EXPECT_TRUE(ParseOpts("")->empty());
  EXPECT_TRUE(ParseOpts("  ")->empty());
}

TEST(ParseOptsTest, RefusesOtherTexts) {
  for (const char* text : {"UPCAST",
                           "UPCAST(",
                           "UPCAST()",
                           "UPCAST(0)",
                           "UPCAST(0, )",
                           "UPCAST(, 4)",
                           "UPCAST(0 4)",
                           "UPCAST(0, 4",
                           "UPCAST(0, 4, 5)",
                           "UPCAST(0, 4x)",
                           "UPCAST(x, 4)",
                           "UPCAST(0.5, 4)",
                           "UPCAST(99999999999, 4)",
                           "UPCAST(0, 99999999999999999999)",
                           "upcast(0, 4)",
                           "CAST(0, 4)",
                           "(0, 4)",
                           "UPCAST (0, 4)",
                           "+UPCAST(0, 4)",
                           "UPCAST(0, 4)+",
                           "UPCAST(0, 4)++LOCAL(0, 4)",
                           "UPCAST(0, 4), LOCAL(0, 4)",
                           "UPCAST(0, 4) noopt",
                           ")",
                           "+"}) {
    EXPECT_TRUE(absl::IsInvalidArgument(ParseOpts(text).status())) << text;
  }
}

}  // namespace
}  // namespace uopd::codegen
