// SPDX-License-Identifier: MIT
// Files that users name: what is replaced, what is written as it is, and what is left alone.
#include "core/base/output_file.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <vector>

#include "core/base/text.h"

namespace uopd {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr OutputFile::Options kOwnLinks{.own_links = true};

class OutputFileTest : public ::testing::Test {
 protected:
  OutputFileTest() {
    std::string name = (fs::temp_directory_path() / "uopd-output-XXXXXX").string();
    folder_ = mkdtemp(name.data());
    Put("victim", "mine");
  }
  ~OutputFileTest() override { fs::remove_all(folder_); }

  std::string At(const std::string& name) const { return folder_ + "/" + name; }
  void Put(const std::string& name, const std::string& text) const {
    std::ofstream(At(name), std::ios::binary) << text;
  }
  std::string Read(const std::string& name) const {
    std::ifstream in(At(name), std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  std::vector<std::string> Names() const {
    std::vector<std::string> out;
    for (const auto& one : fs::directory_iterator(folder_)) out.push_back(one.path().filename());
    std::ranges::sort(out);
    return out;
  }
  mode_t ModeOf(const std::string& name) const {
    struct stat facts{};
    EXPECT_EQ(lstat(At(name).c_str(), &facts), 0) << name;
    return facts.st_mode & 07777;
  }
  // Writing there is refused, and nothing has changed.
  void ExpectRefused(const std::string& name, const std::string& why,
                     const OutputFile::Options& options = {}) const {
    const std::vector<std::string> before = Names();
    const fs::file_status kind = fs::symlink_status(At(name));
    const absl::Status status = WriteFile(At(name), "new", options);
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(why));
    EXPECT_THAT(std::string(status.message()), HasSubstr(folder_));
    EXPECT_EQ(fs::symlink_status(At(name)).type(), kind.type());
    EXPECT_EQ(Names(), before);
    EXPECT_EQ(Read("victim"), "mine");
  }

  std::string folder_;
};

TEST_F(OutputFileTest, AFileHasItsNameWhenItIsWhole) {
  Put("out", "old");
  {
    auto file = OutputFile::Create(At("out"));
    ASSERT_TRUE(file.ok()) << file.status();
    ASSERT_TRUE(file->Write("ne").ok());
    EXPECT_EQ(Read("out"), "old");
    ASSERT_TRUE(file->Write("w").ok());
    EXPECT_EQ(file->bytes(), 3u);
    EXPECT_FALSE(file->is_stream());
    ASSERT_TRUE(file->Keep().ok());
  }
  EXPECT_EQ(Read("out"), "new");
  EXPECT_TRUE(WriteFile(At("fresh"), "1", {.durable = true}).ok());
  EXPECT_EQ(Read("fresh"), "1");
  EXPECT_THAT(Names(), ElementsAre("fresh", "out", "victim"));
}

TEST_F(OutputFileTest, WhatIsNotKeptIsGone) {
  Put("out", "old");
  {
    auto file = OutputFile::Create(At("out"));
    ASSERT_TRUE(file.ok() && file->Write("new").ok());
    auto moved = OutputFile::Create(At("other"));
    ASSERT_TRUE(moved.ok());
    *file = *std::move(moved);
    EXPECT_EQ(Names().size(), 3u);
  }
  EXPECT_EQ(Read("out"), "old");
  EXPECT_THAT(Names(), ElementsAre("out", "victim"));
}

TEST_F(OutputFileTest, ModesComeFromTheOldFile) {
  ASSERT_EQ(chmod(At("victim").c_str(), 04640), 0);
  EXPECT_TRUE(WriteFile(At("victim"), "x").ok());
  EXPECT_EQ(ModeOf("victim"), 0640u);  // the right of another user does not stay
  EXPECT_TRUE(WriteFile(At("secret"), "x", {.mode = 0600}).ok());
  EXPECT_EQ(ModeOf("secret"), 0600u);
  if (geteuid() != 0) return;  // only root can make files of others
  Put("planted", "");
  ASSERT_EQ(chmod(At("planted").c_str(), 0666), 0);
  ASSERT_EQ(chown(At("planted").c_str(), 4711, 4711), 0);
  EXPECT_TRUE(WriteFile(At("planted"), "x", {.mode = 0600}).ok());
  EXPECT_EQ(ModeOf("planted"), 0600u);
}

TEST_F(OutputFileTest, LinksAreRefusedAndStay) {
  fs::create_symlink("victim", At("link"));
  ExpectRefused("link", "is a symbolic link");
  fs::create_symlink("nothing", At("dangling"));
  ExpectRefused("dangling", "is a symbolic link");
  fs::create_symlink("/dev/null", At("device"));
  ExpectRefused("device", "is a symbolic link");
}

TEST_F(OutputFileTest, PlantedNamesBesideTheFileAreNotUsed) {
  for (const std::string& end : std::vector<std::string>{".partial", ".tmp", Cat(".", getpid())})
    fs::create_symlink("victim", At("out" + end));
  const std::vector<std::string> before = Names();
  EXPECT_TRUE(WriteFile(At("out"), "new").ok());
  EXPECT_EQ(Read("out"), "new");
  EXPECT_EQ(Read("victim"), "mine");
  EXPECT_EQ(Names().size(), before.size() + 1);
}

TEST_F(OutputFileTest, PipesSocketsFoldersAndDevicesAreRefused) {
  ASSERT_EQ(mkfifo(At("pipe").c_str(), 0666), 0);
  ExpectRefused("pipe", "is no regular file");  // and nobody waits for a reader
  fs::create_directory(At("folder"));
  ExpectRefused("folder", "is a folder");
  EXPECT_TRUE(absl::IsInvalidArgument(WriteFile(folder_ + "/", "x")));
  EXPECT_TRUE(absl::IsInvalidArgument(WriteFile("", "x")));
  sockaddr_un address{.sun_family = AF_UNIX, .sun_path = {}};
  At("socket").copy(address.sun_path, sizeof address.sun_path - 1);
  const UniqueFd socket(::socket(AF_UNIX, SOCK_STREAM, 0));
  ASSERT_EQ(bind(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  ExpectRefused("socket", "is no regular file");
  EXPECT_TRUE(absl::IsInvalidArgument(WriteFile("/dev/zero", "x")));
  EXPECT_TRUE(fs::is_character_file("/dev/zero"));
}

TEST_F(OutputFileTest, WhatAppearsWhileTheFileIsWrittenIsRefused) {
  auto file = OutputFile::Create(At("out"));
  ASSERT_TRUE(file.ok() && file->Write("new").ok());
  fs::create_symlink("victim", At("out"));
  EXPECT_TRUE(absl::IsInvalidArgument(file->Keep()));
  EXPECT_TRUE(fs::is_symlink(At("out")));
  EXPECT_EQ(Read("victim"), "mine");
}

TEST_F(OutputFileTest, StreamsAreWrittenAsTheyAre) {
  Put("stream", "");
  const UniqueFd open(::open(At("stream").c_str(), O_WRONLY | O_APPEND | O_CLOEXEC));
  for (const std::string prefix : {"/dev/fd/", "/proc/self/fd/"}) {
    auto file = OutputFile::Create(Cat(prefix, open.get()), kOwnLinks);
    ASSERT_TRUE(file.ok()) << file.status();
    EXPECT_TRUE(file->is_stream());
    EXPECT_TRUE(file->Write("ab").ok());
    EXPECT_TRUE(file->Keep().ok());
  }
  EXPECT_EQ(Read("stream"), "abab");
  EXPECT_TRUE(WriteFile("/dev/stdout", "").ok());
  EXPECT_TRUE(WriteFile("/dev/null", "gone").ok());
  EXPECT_TRUE(fs::is_character_file("/dev/null"));
  EXPECT_FALSE(WriteFile("/dev/fd/9999", "x").ok());
  EXPECT_FALSE(WriteFile("/dev/fd/-1", "x").ok());
}

TEST_F(OutputFileTest, OwnLinksAreFollowedWhereThatIsWanted) {
  fs::create_directory(At("deep"));
  fs::create_symlink("../victim", At("deep/first"));
  fs::create_symlink("deep/first", At("second"));
  EXPECT_EQ(*FollowOwnLinks(At("second")), At("deep/../victim"));
  EXPECT_TRUE(WriteFile(At("second"), "new", kOwnLinks).ok());
  EXPECT_TRUE(fs::is_symlink(At("second")));
  EXPECT_EQ(Read("victim"), "new");
  Put("victim", "mine");
  fs::create_symlink(At("later"), At("dangling"));
  EXPECT_TRUE(WriteFile(At("dangling"), "new", kOwnLinks).ok());
  EXPECT_EQ(Read("later"), "new");
  fs::create_symlink("round", At("round"));
  ExpectRefused("round", "too many symbolic links", kOwnLinks);
  EXPECT_EQ(*FollowOwnLinks("/dev/stdout"), "/dev/stdout");
}

TEST_F(OutputFileTest, LinksOfOthersAreNeverFollowed) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can make links of others";
  fs::create_symlink("victim", At("link"));
  ASSERT_EQ(lchown(At("link").c_str(), 4711, 4711), 0);
  ExpectRefused("link", "of another user", kOwnLinks);
  fs::create_symlink("link", At("mine"));
  ExpectRefused("mine", "of another user", kOwnLinks);
}

TEST_F(OutputFileTest, ErrorsAreThoseOfTheSystem) {
  EXPECT_TRUE(absl::IsNotFound(WriteFile(At("no/where"), "x")));
  EXPECT_FALSE(WriteFile(At("victim/x"), "x").ok());
  const UniqueFd read_only(::open(At("victim").c_str(), O_RDONLY | O_CLOEXEC));
  auto file = OutputFile::Create(Cat("/dev/fd/", read_only.get()));
  ASSERT_TRUE(file.ok());
  EXPECT_FALSE(file->Write("x").ok());
}

TEST_F(OutputFileTest, AFileMayBeWrittenOnAfterItHasItsName) {
  auto file = OutputFile::Create(At("log"));
  ASSERT_TRUE(file.ok() && file->Keep().ok());
  const UniqueFd open = file->Release();
  EXPECT_EQ(write(open.get(), "line", 4), 4);
  EXPECT_EQ(Read("log"), "line");
}

}  // namespace
}  // namespace uopd
