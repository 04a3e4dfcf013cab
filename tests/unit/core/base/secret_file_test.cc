// SPDX-License-Identifier: MIT
// Files of secrets: who may read them, what they may hold, and that no message shows it.
#include "core/base/secret_file.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>

namespace uopd {
namespace {

constexpr size_t kMost = size_t{64} << 10;

class SecretFileTest : public ::testing::Test {
 protected:
  SecretFileTest() {
    std::string name = (std::filesystem::temp_directory_path() / "uopd-secret-XXXXXX").string();
    folder_ = mkdtemp(name.data());
    path_ = folder_ + "/secret";
  }
  ~SecretFileTest() override { std::filesystem::remove_all(folder_); }
  void Write(const std::string& text, mode_t mode = 0600) {
    std::filesystem::remove(path_);
    std::ofstream(path_, std::ios::binary) << text;
    ASSERT_EQ(chmod(path_.c_str(), mode), 0);
  }
  // The error names the file, and nothing that is in it.
  void ExpectError(absl::StatusCode code) {
    const absl::Status status = ReadSecretFile(path_).status();
    EXPECT_EQ(status.code(), code) << status;
    EXPECT_NE(status.message().find(path_), std::string::npos) << status;
    EXPECT_EQ(status.message().find("hunter2"), std::string::npos) << status;
  }

  std::string folder_, path_;
};

TEST_F(SecretFileTest, ReturnsTheBytesWithoutLineEndsBehindThem) {
  const std::string odd("a b\0\n\xff", 6);
  for (const auto& [text, secret] : {std::pair<std::string, std::string>{"hunter2", "hunter2"},
                                     {"hunter2\n", "hunter2"},
                                     {"hunter2\r\n\n", "hunter2"},
                                     {"one\ntwo\n", "one\ntwo"},
                                     {odd + "\n", odd},
                                     {std::string(kMost, 'a'), std::string(kMost, 'a')}}) {
    Write(text);
    const auto read = ReadSecretFile(path_);
    ASSERT_TRUE(read.ok()) << read.status();
    EXPECT_EQ(*read, secret);
  }
}

TEST_F(SecretFileTest, RefusesFilesThatCannotHoldASecret) {
  ExpectError(absl::StatusCode::kNotFound);
  for (const std::string& text :
       {std::string(), std::string("\r\n\n"), "hunter2" + std::string(kMost, 'a')}) {
    Write(text);
    ExpectError(absl::StatusCode::kInvalidArgument);
  }
  std::filesystem::remove(path_);
  std::filesystem::create_directory(path_);
  ExpectError(absl::StatusCode::kInvalidArgument);
  std::filesystem::remove(path_);
  // Nobody writes into the pipe: it is refused, and not waited for.
  ASSERT_EQ(mkfifo(path_.c_str(), 0600), 0);
  ExpectError(absl::StatusCode::kInvalidArgument);
}

TEST_F(SecretFileTest, RefusesFilesThatEveryUserMayUse) {
  for (const mode_t mode : {0604, 0602, 0601, 0644, 0666}) {
    Write("hunter2", mode);
    ExpectError(absl::StatusCode::kPermissionDenied);
    EXPECT_TRUE(ReadSecretFile(path_, /*is_public=*/true).ok());
  }
  for (const mode_t mode : {0600, 0400, 0640, 0660}) {
    Write("hunter2", mode);
    EXPECT_TRUE(ReadSecretFile(path_).ok());
  }
}

}  // namespace
}  // namespace uopd
