// SPDX-License-Identifier: MIT
#include "server/engine/content/content_files.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <string>

#include "core/base/telemetry/metrics.h"
#include "core/base/text.h"

namespace uopd::engine {
namespace {

namespace fs = std::filesystem;

class ContentFilesTest : public ::testing::Test {
 protected:
  ContentFilesTest() { fs::remove_all(folder_); }
  ~ContentFilesTest() override { fs::remove_all(folder_); }

  static ContentHasher::Names NamesOf(const ContentFiles& files, const std::string& contents) {
    ContentHasher hasher(files.key().view());
    hasher.Update(contents);
    return hasher.Finish();
  }
  static absl::Status Write(ContentFiles& files, const std::string& contents) {
    return files.Write(NamesOf(files, contents), contents.size(),
                       [&](ContentFiles::Taker take) { return take(0, contents); });
  }
  // The contents, or the error as text.
  static std::string Read(ContentFiles& files, const std::string& contents) {
    std::string out;
    const absl::Status status =
        files.Read(HashBytes(contents), [&](uint64_t offset, std::string_view piece) {
          EXPECT_EQ(offset, out.size());
          out += piece;
          return absl::OkStatus();
        });
    return status.ok() ? out : status.ToString();
  }
  static bool Has(const ContentFiles& files, const std::string& contents) {
    const auto tag = files.TagOf(HashBytes(contents), contents.size());
    return tag && *tag == NamesOf(files, contents).tag;
  }
  std::string PathOf(const std::string& contents) const {
    return Cat(folder_, "/", HashBytes(contents).Hex());
  }

  const std::string folder_ = Cat(::testing::TempDir(), "/contents.", getpid());
};

TEST_F(ContentFilesTest, ContentsAreThereAfterARestart) {
  std::string large(3 << 20, 'a');
  large[2 << 20] = 'b';
  Digest key;
  {
    ContentFiles files(folder_, 1 << 30);
    key = files.key();
    EXPECT_FALSE(Has(files, "small"));
    ASSERT_TRUE(Write(files, "small").ok());
    ASSERT_TRUE(Write(files, large).ok());
    ASSERT_TRUE(Write(files, large).ok());  // it is there
    EXPECT_EQ(files.usage().contents, 2u);
  }
  struct stat is{};
  ASSERT_EQ(stat(PathOf(large).c_str(), &is), 0);
  EXPECT_EQ(is.st_mode & 0777, 0600u);
  ASSERT_EQ(stat(folder_.c_str(), &is), 0);
  EXPECT_EQ(is.st_mode & 0777, 0700u);
  ContentFiles files(folder_, 1 << 30);
  EXPECT_EQ(files.key(), key);
  EXPECT_TRUE(Has(files, "small"));
  EXPECT_TRUE(Has(files, large));
  EXPECT_FALSE(files.TagOf(HashBytes(large), large.size() - 1));
  EXPECT_EQ(Read(files, "small"), "small");
  EXPECT_EQ(Read(files, large), large);
  const auto total =
      static_cast<int64_t>(large.size() + std::string("small").size() + 2 * files.kHeaderBytes);
  EXPECT_EQ(files.usage().bytes, total);
}

TEST_F(ContentFilesTest, WithoutADataFolderNothingIsMade) {
  ContentFiles files(folder_ + "/data/contents", 1 << 20);
  EXPECT_TRUE(Write(files, "abc").ok());
  EXPECT_FALSE(Has(files, "abc"));
  EXPECT_FALSE(fs::exists(folder_));
}

TEST_F(ContentFilesTest, DamageIsFoundBeforeUse) {
  const std::string contents(5000, 'c');
  // A bit of the contents, of the tag, of the magic; a file that is cut, and one that is longer.
  for (const int64_t at : {70L, 5063L, 20L, 0L, -1L, -2L}) {
    SCOPED_TRACE(at);
    fs::remove_all(folder_);
    const uint64_t damaged = metrics::ContentDamaged().value();
    {
      ContentFiles files(folder_, 1 << 20);
      ASSERT_TRUE(Write(files, contents).ok());
    }
    if (at == -1) fs::resize_file(PathOf(contents), 3000);
    if (at == -2) fs::resize_file(PathOf(contents), 9000);
    if (at >= 0) {
      std::fstream file(PathOf(contents), std::ios::in | std::ios::out | std::ios::binary);
      file.seekp(at);
      file.put('\xff');
    }
    ContentFiles files(folder_, 1 << 20);
    const bool known = files.TagOf(HashBytes(contents), contents.size()).has_value();
    EXPECT_EQ(known, at >= 20);  // otherwise the header says that it is not the file it was
    const bool usable = Has(files, contents);
    EXPECT_EQ(usable, at >= 64);  // with a wrong tag no proof is right
    if (at < 64) {
      // Whoever uploads the contents again heals it.
      ASSERT_TRUE(Write(files, contents).ok());
      EXPECT_TRUE(Has(files, contents));
      EXPECT_EQ(Read(files, contents), contents);
      EXPECT_EQ(files.usage().contents, 1u);
      continue;
    }
    EXPECT_NE(Read(files, contents), contents);
    EXPECT_EQ(metrics::ContentDamaged().value(), damaged + 1);
    EXPECT_FALSE(Has(files, contents));
    EXPECT_FALSE(fs::exists(PathOf(contents)));
    EXPECT_EQ(files.usage().bytes, 0);
  }
}

TEST_F(ContentFilesTest, DamageWhileTheDaemonRunsIsFound) {
  const std::string contents(5000, 'd');
  ContentFiles files(folder_, 1 << 20);
  ASSERT_TRUE(Write(files, contents).ok());
  fs::resize_file(PathOf(contents), 100);
  EXPECT_TRUE(Has(files, contents));
  EXPECT_NE(Read(files, contents), contents);
  EXPECT_FALSE(Has(files, contents));
  ASSERT_TRUE(Write(files, contents).ok());
  fs::remove(PathOf(contents));  // by another daemon
  EXPECT_NE(Read(files, contents), contents);
  EXPECT_FALSE(Has(files, contents));
}

TEST_F(ContentFilesTest, TheLeastRecentlyUsedGoFirst) {
  const std::string a(1000, 'a'), b(1000, 'b'), c(1000, 'c'), d(1000, 'd'), huge(4000, 'h');
  const int64_t three = 3 * (1000 + ContentFiles::kHeaderBytes);
  {
    ContentFiles files(folder_, three);
    for (const std::string* contents : {&a, &b, &c}) ASSERT_TRUE(Write(files, *contents).ok());
    EXPECT_EQ(Read(files, a), a);
    ASSERT_TRUE(Write(files, d).ok());  // in place of b
    EXPECT_FALSE(Has(files, b));
    EXPECT_FALSE(fs::exists(PathOf(b)));
    ASSERT_TRUE(Write(files, huge).ok());  // has no room
    EXPECT_FALSE(Has(files, huge));
    EXPECT_EQ(files.usage().contents, 3u);
  }
  // The order survives a restart, by the times of the files.
  const auto now = fs::file_time_type::clock::now();
  fs::last_write_time(PathOf(c), now - std::chrono::hours(1));
  fs::last_write_time(PathOf(a), now - std::chrono::hours(3));
  fs::last_write_time(PathOf(d), now - std::chrono::hours(2));
  {
    ContentFiles files(folder_, three);
    EXPECT_EQ(Read(files, a), a);  // the last one now, for the next restart too
  }
  ContentFiles files(folder_, three);
  files.set_max_bytes(three - 1);
  EXPECT_FALSE(Has(files, d));
  EXPECT_TRUE(Has(files, a));
  EXPECT_TRUE(Has(files, c));
  files.set_max_bytes(0);
  EXPECT_EQ(files.usage().bytes, 0);
}

TEST_F(ContentFilesTest, WhatIsNoContentGoesAtTheStart) {
  {
    ContentFiles files(folder_, 1 << 20);
  }
  const std::string begun = Cat(folder_, "/begun"), other = Cat(folder_, "/", std::string(64, 'a'));
  std::ofstream(begun) << "half of a file";
  std::ofstream(other) << "no header";
  for (const std::string& path : {begun, other})
    fs::last_write_time(path, fs::file_time_type::clock::now() - std::chrono::hours(2));
  const std::string fresh = Cat(folder_, "/fresh");
  std::ofstream(fresh) << "another daemon writes it";
  fs::create_symlink("/etc/passwd", Cat(folder_, "/", std::string(64, 'b')));
  ContentFiles files(folder_, 1 << 20);
  EXPECT_EQ(files.usage().contents, 0u);
  EXPECT_FALSE(fs::exists(begun));
  EXPECT_FALSE(fs::exists(other));
  EXPECT_TRUE(fs::exists(fresh));
  EXPECT_TRUE(fs::exists("/etc/passwd"));
}

TEST_F(ContentFilesTest, WithoutAFolderThereAreNoFiles) {
  ContentFiles none("", 1 << 20), other("", 1 << 20);
  EXPECT_NE(none.key(), other.key());
  ASSERT_TRUE(Write(none, "contents").ok());
  EXPECT_FALSE(Has(none, "contents"));
  std::ofstream(Cat(::testing::TempDir(), "/a_file")) << "no folder";
  ContentFiles blocked(Cat(::testing::TempDir(), "/a_file"), 1 << 20);
  EXPECT_NE(blocked.key(), Digest());
  EXPECT_TRUE(Write(blocked, "contents").ok());
  EXPECT_FALSE(Has(blocked, "contents"));
}

TEST_F(ContentFilesTest, AnErrorOfTheSourceLeavesNothing) {
  ContentFiles files(folder_, 1 << 20);
  const absl::Status written = files.Write(
      NamesOf(files, "contents"), 8, [](ContentFiles::Taker) { return absl::CancelledError(); });
  EXPECT_TRUE(absl::IsCancelled(written)) << written;
  EXPECT_FALSE(Has(files, "contents"));
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_), fs::directory_iterator()), 1);  // key
}

}  // namespace
}  // namespace uopd::engine
