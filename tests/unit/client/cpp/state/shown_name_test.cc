// SPDX-License-Identifier: MIT
#include "client/cpp/state/shown_name.h"

#include <gtest/gtest.h>

namespace uopd::client {
namespace {

TEST(ShownName, IsUtf8WithoutControls) {
  struct {
    std::string_view name, shown;
  } const cases[] = {
      {"", "``"},
      {"blk.0.w", "`blk.0.w`"},
      {"\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80", "`\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80`"},
      {std::string_view("a\0\x1b\x7f\n", 5), "`a????`"},
      {"\xc2\x80\xc2\x9f\xc2\xa0", "`??\xc2\xa0`"},       // U+0080, U+009F, U+00A0
      {"\xff\xfe", "`??`"},                               // begins no character
      {"\x80z", "`?z`"},                                  // goes on with none
      {"\xc3", "`?`"},                                    // cut off
      {"\xe2\x82", "`??`"},                               // cut off
      {"\xe2z", "`?z`"},                                  // does not go on
      {"\xc0\xaf\xc1\xbf", "`????`"},                     // too long
      {"\xe0\x80\xaf\xf0\x80\x80\xaf", "`???????`"},      // too long
      {"\xed\xa0\x80\xed\x9f\xbf", "`???\xed\x9f\xbf`"},  // U+D800, U+D7FF
      {"\xf4\x8f\xbf\xbf", "`\xf4\x8f\xbf\xbf`"},         // U+10FFFF
      {"\xf4\x90\x80\x80\xf5\x80\x80\x80", "`????????`"},
  };
  for (const auto& c : cases) EXPECT_EQ(ShownName(c.name), c.shown);
}

TEST(ShownName, LongNamesAreCutBetweenCharacters) {
  EXPECT_EQ(ShownName(std::string(80, 'a')), "`" + std::string(80, 'a') + "`");
  EXPECT_EQ(ShownName(std::string(81, 'a')), "`" + std::string(80, 'a') + "...`");
  EXPECT_EQ(ShownName(std::string(79, 'a') + "\xc3\xa9"), "`" + std::string(79, 'a') + "...`");
  EXPECT_EQ(ShownName(std::string(78, 'a') + "\xc3\xa9"), "`" + std::string(78, 'a') + "\xc3\xa9`");
}

}  // namespace
}  // namespace uopd::client
