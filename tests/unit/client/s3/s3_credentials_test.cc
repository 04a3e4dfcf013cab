// SPDX-License-Identifier: MIT
// Files of credentials. What is in them is in no message.
#include "client/s3/s3_credentials.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>

namespace uopd::s3 {
namespace {

constexpr char kText[] =
    "# a comment\r\n[default]\r\naws_access_key_id = ID\r\n  aws_secret_access_key=a/b+c==\r\n"
    "region = x\n[ other ]\naws_access_key_id=O\naws_secret_access_key=S\naws_session_token=T\n"
    "[half]\naws_access_key_id=hunter2\n[odd]\naws_access_key_id=O\n"
    "aws_secret_access_key=hunter2 hunter2\n";

TEST(S3CredentialsTest, Profiles) {
  const auto one = ParseCredentials(kText, "default");
  ASSERT_TRUE(one.ok()) << one.status();
  EXPECT_EQ(one->id, "ID");
  EXPECT_EQ(one->secret, "a/b+c==");
  EXPECT_EQ(one->token, "");
  EXPECT_EQ(ParseCredentials(kText, "other")->token, "T");
  for (const char* profile : {"half", "odd", "none", ""}) {
    const absl::Status status = ParseCredentials(kText, profile).status();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << profile;
    EXPECT_EQ(status.message().find("hunter2"), std::string::npos) << status;
  }
  for (const char* text : {"", "[", "[default", "=", "[default]\n=\n", "\n\n[]\n"})
    EXPECT_FALSE(ParseCredentials(text, "default").ok()) << text;
}

TEST(S3CredentialsTest, Files) {
  std::string folder = (std::filesystem::temp_directory_path() / "uopd-s3-XXXXXX").string();
  ASSERT_NE(mkdtemp(folder.data()), nullptr);
  const std::string path = folder + "/credentials";
  EXPECT_TRUE(absl::IsNotFound(ReadCredentials(path, "default").status()));
  std::ofstream(path) << kText;
  chmod(path.c_str(), 0644);
  EXPECT_TRUE(absl::IsPermissionDenied(ReadCredentials(path, "default").status()));
  chmod(path.c_str(), 0600);
  EXPECT_EQ(ReadCredentials(path, "default")->id, "ID");
  const absl::Status none = ReadCredentials(path, "none").status();
  EXPECT_NE(none.message().find(path), std::string::npos) << none;
  EXPECT_TRUE(absl::IsInvalidArgument(ReadCredentials(folder, "default").status()));
  EXPECT_EQ(none.message().find("hunter2"), std::string::npos) << none;
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace uopd::s3
