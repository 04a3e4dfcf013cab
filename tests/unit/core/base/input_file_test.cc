// SPDX-License-Identifier: MIT
// Files that settings and users name, and what may lie at their names instead.
#include "core/base/input_file.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>

#include "core/base/status.h"

namespace uopd {
namespace {

namespace fs = std::filesystem;

class InputFileTest : public ::testing::Test {
 protected:
  InputFileTest() {
    std::string name = (fs::temp_directory_path() / "uopd-input-XXXXXX").string();
    folder_ = mkdtemp(name.data());
  }
  ~InputFileTest() override { fs::remove_all(folder_); }
  std::string Path(const std::string& name) const { return folder_ + "/" + name; }

  std::string folder_;
};

TEST_F(InputFileTest, ReadsAllBytesUpToTheMost) {
  for (const size_t size : {size_t{0}, size_t{1}, size_t{4095}, size_t{4096}, size_t{100'000}}) {
    std::string bytes(size, '\0');
    for (size_t i = 0; i < size; ++i) bytes[i] = static_cast<char>(i * 7);
    std::ofstream(Path("file"), std::ios::binary) << bytes;
    mode_t mode = 0;
    const auto all = ReadInputFile(Path("file"), size, &mode);
    ASSERT_TRUE(all.ok()) << all.status();
    EXPECT_EQ(*all, bytes);
    EXPECT_TRUE(S_ISREG(mode));
    if (size == 0) continue;
    const absl::Status large = ReadInputFile(Path("file"), size - 1).status();
    EXPECT_TRUE(absl::IsInvalidArgument(large)) << large;
    EXPECT_NE(large.message().find("is larger than"), std::string::npos) << large;
  }
  fs::create_symlink("file", Path("link"));  // mounted secrets are links
  EXPECT_EQ(ReadInputFile(Path("link"), 1 << 20)->size(), 100'000);
}

// Its size is 0, and it has bytes.
TEST_F(InputFileTest, ReadsFilesOfProc) {
  const auto text = ReadInputFile("/proc/self/status", 1 << 20);
  ASSERT_TRUE(text.ok()) << text.status();
  EXPECT_TRUE(text->starts_with("Name:")) << *text;
}

TEST_F(InputFileTest, WhatIsNoFileIsAnErrorAtOnce) {
  ASSERT_EQ(mkfifo(Path("pipe").c_str(), 0600), 0);
  fs::create_symlink(Path("loop"), Path("loop"));
  const std::pair<std::string, absl::StatusCode> rows[] = {
      {Path("pipe"), absl::StatusCode::kInvalidArgument},
      {folder_, absl::StatusCode::kInvalidArgument},
      {"/dev/zero", absl::StatusCode::kInvalidArgument},
      {Path("missing"), absl::StatusCode::kNotFound},
      {Path("loop"), absl::StatusCode::kNotFound},
      {"", absl::StatusCode::kNotFound},
  };
  for (const auto& [path, code] : rows) {
    const absl::Status status = ReadInputFile(path, 1 << 20).status();
    EXPECT_EQ(status.code(), code) << status;
    EXPECT_NE(status.message().find(path), std::string::npos) << status;
  }
  const absl::Status unreadable = ReadInputFile("/proc/self/mem", 1 << 20).status();
  EXPECT_FALSE(unreadable.ok());
  EXPECT_NE(unreadable.message().find("cannot be read"), std::string::npos) << unreadable;
}

}  // namespace
}  // namespace uopd
