// SPDX-License-Identifier: MIT
// Files beside a model, and links that lead where they must not.
#include "client/cpp/state/model_folder.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "core/base/status.h"

namespace uopd::client {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

class ModelFolderTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string name = (fs::temp_directory_path() / "uopd-folder-XXXXXX").string();
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    repository_ = name;
    fs::create_directories(snapshot() / "inner");
    fs::create_directories(repository_ / "blobs/deep");
    fs::create_directories(repository_ / "snapshots/other");
    Put("blobs/1", "blob");
    Put("blobs/deep/2", "deep");
    Put("secret", "secret");
    Put("snapshots/other/w", "other");
    Put("snapshots/abc/plain", "plain");
    Put("snapshots/abc/inner/w", "inner");
  }
  void TearDown() override { fs::remove_all(repository_); }
  fs::path snapshot() const { return repository_ / "snapshots/abc"; }
  void Put(const std::string& path, std::string_view contents) const {
    std::ofstream(repository_ / path, std::ios::binary) << contents;
  }
  void Link(const std::string& to, const std::string& name) const {
    fs::create_symlink(to, snapshot() / name);
  }
  // The contents of a file by its path below the snapshot, or what is wrong.
  std::string Read(std::string_view path) const { return ReadIn(snapshot(), path); }
  static std::string ReadIn(const fs::path& in, std::string_view path) {
    const UniqueFd folder(open(in.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
    const auto file = OpenInModelFolder(folder, path, "`shown`");
    if (!file.ok()) return StatusText(file.status());
    std::string out(file->bytes(), '\0');
    return file->ReadAt(0, out).ok() ? out : "nothing";
  }

  fs::path repository_;
};

TEST_F(ModelFolderTest, LinksWithinTheFolder) {
  Link("plain", "a");
  Link("inner", "folder");
  Link((snapshot() / "inner/w").string(), "absolute");
  Link("a", "twice");
  for (const char* path : {"plain", "a", "twice", "./a"}) EXPECT_EQ(Read(path), "plain") << path;
  for (const char* path : {"inner/w", "folder/w", "absolute"})
    EXPECT_EQ(Read(path), "inner") << path;
}

TEST_F(ModelFolderTest, SnapshotsHaveTheirBlobs) {
  Link("../../blobs/1", "a");
  Link("../../../blobs/1", "inner/b");
  EXPECT_EQ(Read("a"), "blob");
  EXPECT_EQ(Read("inner/b"), "blob");
  // A link within blobs is none of the cache's.
  fs::create_symlink("../secret", repository_ / "blobs/3");
  Link("../../blobs/3", "c");
  Link("../../blobs/deep/2", "d");
  for (const char* path : {"c", "d"})
    EXPECT_THAT(Read(path), HasSubstr("is a link that leads out of the folder of the model"));
  // The folder has to be a snapshot of this repository.
  fs::create_directories(repository_ / "folder/abc");
  fs::create_symlink("../../blobs/1", repository_ / "folder/abc/a");
  EXPECT_THAT(ReadIn(repository_ / "folder/abc", "a"), HasSubstr("leads out of the folder"));
}

TEST_F(ModelFolderTest, LinksThatLeadOut) {
  Link("../../secret", "a");
  Link((repository_ / "secret").string(), "b");
  Link("../other/w", "c");
  Link("..", "up");
  Link("/proc/self/environ", "d");
  for (const char* path : {"a", "b", "c", "up/other/w", "d"})
    EXPECT_THAT(Read(path),
                HasSubstr("`shown` is a link that leads out of the folder of the model"));
  Link("nowhere", "e");
  Link("f", "f");
  for (const char* path : {"e", "f"}) EXPECT_THAT(Read(path), HasSubstr("is a symbolic link"));
  EXPECT_THAT(Read("inner/../plain"), HasSubstr("leads out of its folder"));
  EXPECT_THAT(Read("."), HasSubstr("is no regular file"));
  EXPECT_THAT(Read("none"), HasSubstr("opening `shown`"));
}

}  // namespace
}  // namespace uopd::client
