// SPDX-License-Identifier: MIT
// URLs of a cache of the Remote Execution API.
#include "cache/reapi/reapi_url.h"

#include <gtest/gtest.h>

namespace uopd::cache {
namespace {

TEST(ReapiUrlTest, Parts) {
  const auto url = ParseReapiUrl("reapi://user@host:9092/main/linux");
  ASSERT_TRUE(url.ok()) << url.status();
  EXPECT_EQ(url->server, (HostPort{"host", 9092}));
  EXPECT_EQ(url->user, "user");
  EXPECT_EQ(url->instance, "main/linux");
  EXPECT_FALSE(url->tls);
  const auto tls = ParseReapiUrl("reapis://[::1]:7");
  ASSERT_TRUE(tls.ok()) << tls.status();
  EXPECT_EQ(tls->server, (HostPort{"::1", 7}));
  EXPECT_EQ(tls->instance, "");
  EXPECT_TRUE(tls->tls);
  EXPECT_EQ(ParseReapiUrl("reapi://host:1/")->instance, "");
}

TEST(ReapiUrlTest, ErrorsNameThePartAndNeverThePassword) {
  for (const char* text :
       {"", "host:1", "grpc://host:1", "reapi://", "reapi://host", "reapi://:1", "reapi://host:0",
        "reapi://host:x", "reapi://host:65536", "reapi://[::1", "reapi://[::1]",
        "reapi://host:1/a//b", "reapi://host:1/a/", "reapi://host:1/blobs",
        "reapi://host:1/a/uploads/b", "reapi://host:1/a b", "reapi://host:1/\x7f",
        "reapi://user:hunter2@host:1", "reapi://:hunter2@host:1"}) {
    const absl::Status status = ParseReapiUrl(text).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << text;
    EXPECT_EQ(status.message().find("hunter2"), std::string::npos) << status;
    EXPECT_NE(status.message().find("URL"), std::string::npos) << status;
  }
}

}  // namespace
}  // namespace uopd::cache
