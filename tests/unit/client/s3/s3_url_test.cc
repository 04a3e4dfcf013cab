// SPDX-License-Identifier: MIT
// Names of objects, and of the servers that have them.
#include "client/s3/s3_url.h"

#include <gtest/gtest.h>

namespace uopd::s3 {
namespace {

TEST(S3UrlTest, Parts) {
  EXPECT_EQ(*ParseS3Url("s3://my-bucket/a/b.uopb"), (ObjectName{"my-bucket", "a/b.uopb"}));
  EXPECT_EQ(*ParseS3Url("s3://abc//x"), (ObjectName{"abc", "/x"}));
  EXPECT_EQ(TextOf({"abc", "d/e"}), "s3://abc/d/e");
  EXPECT_TRUE(IsS3Url("s3://"));
  EXPECT_FALSE(IsS3Url("/s3://abc/d"));
  for (const std::string& text :
       {std::string("s3://"), std::string("s3://abc"), std::string("s3://abc/"),
        std::string("s3://ab/c"), std::string("s3://Abc/d"), std::string("s3://a_bc/d"),
        std::string("s3://.abc/d"), std::string("s3://a@bc/d"),
        "s3://" + std::string(64, 'a') + "/d", "s3://abc/" + std::string(1025, 'a'),
        std::string("s3://abc/a\nb"), std::string("s3://abc/../b"), std::string("s3://abc/a/."),
        std::string("http://abc/d"), std::string()}) {
    EXPECT_TRUE(absl::IsInvalidArgument(ParseS3Url(text).status())) << text;
  }
}

TEST(S3UrlTest, Places) {
  EXPECT_EQ(HttpUrlOf({"abc", "d e/+\xc3\xa4~.x"}, "", "eu-west-1"),
            "https://abc.s3.eu-west-1.amazonaws.com/d%20e/%2B%C3%A4~.x");
  EXPECT_EQ(HttpUrlOf({"a.bc", "d"}, "", "eu-west-1"), "https://s3.eu-west-1.amazonaws.com/a.bc/d");
  EXPECT_EQ(HttpUrlOf({"abc", "d?e#f"}, "http://host:9000/", "x"),
            "http://host:9000/abc/d%3Fe%23f");
  for (const char* right : {"", "http://host", "https://host:9000", "https://[::1]:9000/"})
    EXPECT_TRUE(CheckEndpoint(right).ok()) << right;
  for (const char* wrong :
       {"host", "host/", "http://https://host", "http://", "ftp://host", "http://user:secret@host",
        "http://host?x", "http://host/path", "file:///etc/passwd"}) {
    const absl::Status status = CheckEndpoint(wrong);
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << wrong;
    EXPECT_EQ(status.message().find("secret"), std::string::npos);
  }
}

}  // namespace
}  // namespace uopd::s3
