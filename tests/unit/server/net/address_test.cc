// SPDX-License-Identifier: MIT
#include "server/net/address.h"

#include <gtest/gtest.h>

#include <tuple>

namespace uopd::net {
namespace {

TEST(AddressTest, ReadsWhatASettingSpells) {
  for (const auto& [text, kind, local] : {
           std::tuple("127.0.0.1:50510", Address::kTcp, true),
           std::tuple("127.3.2.1:0", Address::kTcp, true),
           std::tuple("localhost:65535", Address::kTcp, true),
           std::tuple("[::1]:1", Address::kTcp, true),
           std::tuple("0.0.0.0:1", Address::kTcp, false),
           std::tuple("[::]:1", Address::kTcp, false),
           std::tuple("127.example.org:1", Address::kTcp, false),
           std::tuple("unix:/run/uopd.sock", Address::kUnix, true),
           std::tuple("unix-abstract:uopd", Address::kAbstract, true),
       }) {
    const auto address = ParseAddress(text);
    ASSERT_TRUE(address.ok()) << text << ": " << address.status();
    EXPECT_EQ(address->kind, kind) << text;
    EXPECT_EQ(IsLocal(*address), local) << text;
    EXPECT_EQ(ToText(*address), text);
  }
  EXPECT_EQ(ParseAddress("unix:///run/uopd.sock")->path, "/run/uopd.sock");
}

TEST(AddressTest, RefusesWhatMakesNoSense) {
  for (const std::string& text :
       {std::string("127.0.0.1"), std::string("127.0.0.1:"), std::string("127.0.0.1:99999"),
        std::string("127.0.0.1:-1"), std::string("127.0.0.1:http"), std::string("127.0.0.1:1x"),
        std::string(":1"), std::string(""), std::string("::1:50510"), std::string("[::1]"),
        std::string("[::1:1"), std::string("[x]:1"), std::string("[::1]50510"),
        std::string("unix:"), "unix:/" + std::string(200, 'x')}) {
    const auto address = ParseAddress(text);
    EXPECT_TRUE(absl::IsInvalidArgument(address.status())) << text;
    EXPECT_NE(address.status().message().find("(" + text + ")"), absl::string_view::npos) << text;
  }
}

}  // namespace
}  // namespace uopd::net
