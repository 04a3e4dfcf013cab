// SPDX-License-Identifier: MIT
#include "core/base/text.h"

#include <gtest/gtest.h>

namespace uopd {
namespace {

TEST(TextTest, ControlCharactersAreShown) {
  EXPECT_EQ(WithoutControls("ö plain \"text\" \\n"), "ö plain \"text\" \\n");
  EXPECT_EQ(WithoutControls(std::string_view("a\0b\x1b[2K\n\t\x7f", 10)),
            "a\\x00b\\x1b[2K\\x0a\\x09\\x7f");
  EXPECT_EQ(WithoutControls("a\n\tb\r", "\n\t"), "a\n\tb\\x0d");
  EXPECT_EQ(WithoutControls(""), "");
}

}  // namespace
}  // namespace uopd
