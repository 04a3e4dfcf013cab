// SPDX-License-Identifier: MIT
#include "core/base/config/debug_flags.h"

#include <gtest/gtest.h>

#include <cstring>

#include "tests/support/generated_section.h"

namespace uopd {
namespace {

TEST(DebugFlags, ThePrefixIsOptionalAndWins) {
  const DebugFlags flags = DebugFlags::Read([](const char* name) -> const char* {
    if (std::strcmp(name, "SPEC") == 0) return "1";
    if (std::strcmp(name, "UOPD_SPEC") == 0) return "2";
    if (std::strcmp(name, "VIZ") == 0) return "1";
    if (std::strcmp(name, "UOPD_DISABLE_RULES") == 0) return "a.b,c.*";
    if (std::strcmp(name, "REWRITE_LIMIT") == 0) return "many";
    return nullptr;
  });
  EXPECT_EQ(flags.spec, 2);
  EXPECT_EQ(flags.viz, 1);
  EXPECT_EQ(flags.disable_rules, "a.b,c.*");
  EXPECT_EQ(flags.rewrite_limit, -1) << "what is no number is ignored";
  EXPECT_EQ(flags.track_match_stats, 0);
}

TEST(Docs, DebugFlagsAreCurrent) {
  test::ExpectGenerated("debugging.md", "flags", DebugFlagsDocs());
}

}  // namespace
}  // namespace uopd
