// SPDX-License-Identifier: MIT
// Regular files, by their paths and below a folder.
#include "client/cpp/state/regular_file.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "core/base/status.h"

namespace uopd::client {
namespace {

using ::testing::HasSubstr;

TEST(RegularFileTest, OpensBelowAFolder) {
  std::string name = (std::filesystem::temp_directory_path() / "uopd-file-XXXXXX").string();
  ASSERT_NE(mkdtemp(name.data()), nullptr);
  const std::filesystem::path folder = name;
  std::filesystem::create_directories(folder / "a/b");
  std::ofstream(folder / "a/b/file") << "contents";
  std::filesystem::create_symlink("file", folder / "a/b/link");
  // A folder that may be entered and not listed.
  std::filesystem::permissions(folder / "a", std::filesystem::perms::owner_exec);
  const UniqueFd fd(open(folder.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  const auto file = RegularFile::OpenBeneath(fd, "a/b/file", "`shown`");
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ(file->path(), "`shown`");
  EXPECT_EQ(file->bytes(), 8u);
  std::string part(3, '\0');
  ASSERT_TRUE(file->ReadAt(5, part).ok());
  EXPECT_EQ(part, "nts");
  EXPECT_EQ(file->ReadAt(6, part).code(), absl::StatusCode::kDataLoss);
  const auto says = [&](std::string_view path) {
    return StatusText(RegularFile::OpenBeneath(fd, path, "`shown`").status());
  };
  EXPECT_EQ(says("a/b/link"), "`shown` is a symbolic link");
  EXPECT_EQ(says("a/b/file/x"),
            "`shown` goes through a symbolic link, or through what is no folder");
  EXPECT_EQ(says("a/../a/b/file"), "`shown` leads out of its folder");
  EXPECT_EQ(says(".."), "`shown` leads out of its folder");
  for (const std::string_view path :
       {std::string_view(), std::string_view("/etc/passwd"), std::string_view("a\0b", 3)})
    EXPECT_EQ(says(path), "`shown` is no path below a folder");
  EXPECT_THAT(says("a/c/file"), HasSubstr("opening `shown`"));
  std::filesystem::permissions(folder / "a", std::filesystem::perms::owner_all);
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace uopd::client
