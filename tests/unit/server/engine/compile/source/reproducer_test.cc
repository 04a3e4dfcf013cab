// SPDX-License-Identifier: MIT
#include "server/engine/compile/source/reproducer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "core/base/text.h"
#include "tests/unit/server/engine/fixture.h"

namespace uopd::engine {
namespace {

namespace fs = std::filesystem;

class ReproducerTest : public testing::Test {
 protected:
  ~ReproducerTest() override { fs::remove_all(folder_); }

  ReproducerFolder Open(ReproducerFolder::Limits limits) {
    return {folder_.string(), "CPU", limits};
  }
  // Written at second `i`, for a graph of its own.
  fs::path Write(ReproducerFolder& folder, int i) {
    const absl::Status status =
        folder.Explain(absl::InternalError("why"), ScaleGraph(4, i), CompileOptions());
    const std::string text = StatusText(status);
    const size_t at = text.find("reproducer: ");
    if (at == std::string::npos) return {};
    const fs::path path = text.substr(at + 12, text.size() - at - 13);
    fs::last_write_time(path, fs::file_time_type{} + std::chrono::seconds(i));
    return path;
  }
  size_t Count() const {
    return static_cast<size_t>(std::distance(fs::directory_iterator(folder_), {}));
  }

  const fs::path folder_ = fs::path(testing::TempDir()) / Cat("repro-", getpid());
};

TEST_F(ReproducerTest, TheOldestMakeRoom) {
  ReproducerFolder folder = Open({.files = 3});
  std::vector<fs::path> paths;
  for (int i = 1; i <= 5; ++i) paths.push_back(Write(folder, i));
  EXPECT_EQ(Count(), 3u);
  for (int i = 0; i < 5; ++i) EXPECT_EQ(fs::exists(paths[i]), i >= 2) << i;
}

TEST_F(ReproducerTest, BytesAreBoundedToo) {
  ReproducerFolder first = Open({});
  const fs::path path = Write(first, 1);
  const size_t size = fs::file_size(path);
  ReproducerFolder folder = Open({.bytes = 3 * size + 20});  // texts differ by a digit or two
  for (int i = 2; i <= 9; ++i) EXPECT_FALSE(Write(folder, i).empty());
  EXPECT_EQ(Count(), 3u);
  ReproducerFolder tiny = Open({.bytes = size / 2});
  EXPECT_EQ(Write(tiny, 20), "");
  EXPECT_EQ(Count(), 3u);  // nothing went for what does not fit
  ReproducerFolder small = Open({.graph_bytes = 8});
  EXPECT_EQ(Write(small, 21), "");
}

TEST_F(ReproducerTest, OtherFilesStay) {
  fs::create_directories(folder_);
  std::ofstream(folder_ / "notes.txt") << "mine";
  ReproducerFolder folder = Open({.files = 1});
  for (int i = 1; i <= 3; ++i) Write(folder, i);
  EXPECT_TRUE(fs::exists(folder_ / "notes.txt"));
  EXPECT_EQ(Count(), 2u);
}

// The name is foreseeable. What others have put there is neither written through nor named to a
// client.
TEST_F(ReproducerTest, LinksInTheFolderAreNotUsed) {
  ReproducerFolder folder = Open({});
  const fs::path path = Write(folder, 1);
  ASSERT_TRUE(fs::exists(path));
  fs::remove(path);
  const fs::path victim = folder_ / "victim";
  std::ofstream(victim) << "mine";
  for (const fs::path& target : {victim, folder_ / "nothing"}) {
    fs::create_symlink(target, path);
    EXPECT_EQ(Write(folder, 1), "");
    EXPECT_TRUE(fs::is_symlink(path));
    fs::remove(path);
  }
  EXPECT_EQ(fs::file_size(victim), 4u);
  EXPECT_EQ(Count(), 1u);
}

TEST(ReproducerHeadTest, OptionsComeBackAsTheyWere) {
  CompileOptions options;
  options.fast_math = true;
  options.beam = 3;
  const auto head = ReadReproducerHead(
      Cat("; why\n; options: forged\n; options: ", options.Text(), "\n; devices: CPU,NULL\n%0 ="));
  ASSERT_TRUE(head.ok()) << head.status();
  EXPECT_EQ(head->options, options);
  EXPECT_EQ(head->devices, "CPU,NULL");
}

TEST(ReproducerHeadTest, OtherTextIsRefused) {
  for (const char* text :
       {"", "; options: noopt=0\n", "; devices: CPU\n", "%0 = x",
        "; options: noopt=x\n; devices: CPU\n", "; options: later=1\n; devices: CPU\n"}) {
    EXPECT_TRUE(absl::IsFailedPrecondition(ReadReproducerHead(text).status())) << text;
  }
}

}  // namespace
}  // namespace uopd::engine
