// SPDX-License-Identifier: MIT
#include "cache/file/recent_rows.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "cache/base/row/key.h"
#include "cache/store.h"
#include "core/base/text.h"

namespace uopd::cache {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

Row RecentRow(int i) {
  return MakeRow({"kernel", Cat("graph ", i), "environment"}, std::string(1000 + i, 'v'), 7, 9, 3);
}

class RecentRowsTest : public testing::Test {
 protected:
  RecentRowsTest() {
    std::string name =
        (std::filesystem::temp_directory_path() / "uopd-recent-test-XXXXXX").string();
    folder_ = mkdtemp(name.data());
  }
  ~RecentRowsTest() override { std::filesystem::remove_all(folder_); }

  // Runs `act` in a process of its own, which is killed at the end of it.
  template <class F>
  void Killed(F act) const {
    const pid_t pid = fork();
    ASSERT_GE(pid, 0);
    if (pid == 0) {
      act();
      kill(getpid(), SIGKILL);
    }
    int status = 0;
    waitpid(pid, &status, 0);
    ASSERT_TRUE(WIFSIGNALED(status));
  }
  // The values' sizes tell the rows apart.
  std::vector<size_t> TakenOver(RecentRows& rows, absl::Status answer = absl::OkStatus()) const {
    std::vector<size_t> out;
    rows.TakeOver([&](Row row) {
      EXPECT_EQ(row.checksum, Checksum(row));
      EXPECT_EQ(row.fence, 3);
      out.push_back(row.value.size() - 1000);
      return answer;
    });
    return out;
  }
  std::vector<std::string> Files() const {
    std::vector<std::string> out;
    for (const auto& entry : std::filesystem::directory_iterator(folder_))
      out.push_back(entry.path().string());
    return out;
  }

  std::string folder_;
};

TEST_F(RecentRowsTest, WhatAKilledProcessLeftIsTakenOverOnce) {
  Killed([&] {
    RecentRows rows(folder_);
    rows.Keep(RecentRow(9));
    rows.Clear();
    rows.Keep(RecentRow(1));
    rows.Keep(RecentRow(2));
  });
  RecentRows rows(folder_);
  EXPECT_THAT(TakenOver(rows, absl::UnavailableError("no")), ElementsAre(1u))
      << "ends at a failure";
  EXPECT_THAT(TakenOver(rows), ElementsAre(1u, 2u));
  EXPECT_THAT(TakenOver(rows), IsEmpty());
}

TEST_F(RecentRowsTest, TheFilesOfLivingProcessesStay) {
  RecentRows one(folder_), two(folder_);
  one.Keep(RecentRow(1));
  EXPECT_THAT(TakenOver(two), IsEmpty());
  EXPECT_THAT(TakenOver(one), IsEmpty()) << "its own, too";
  EXPECT_EQ(Files().size(), 2u);
}

TEST_F(RecentRowsTest, AnEndInOrderLeavesNothing) {
  {
    RecentRows rows(folder_);
    rows.Keep(RecentRow(1));
    rows.Clear();
  }
  EXPECT_THAT(Files(), IsEmpty());
}

TEST_F(RecentRowsTest, CutAndDamagedFilesGiveTheRowsBeforeTheDamage) {
  Killed([&] {
    RecentRows rows(folder_);
    for (int i = 0; i < 4; ++i) rows.Keep(RecentRow(i));
  });
  ASSERT_EQ(Files().size(), 1u);
  const std::string path = Files().front();
  std::ifstream in(path, std::ios::binary);
  const std::string whole{std::istreambuf_iterator<char>(in), {}};
  in.close();
  const auto taken = [&](const std::string& bytes) {
    std::ofstream(path, std::ios::binary) << bytes;
    RecentRows rows(folder_);
    return TakenOver(rows);
  };
  for (size_t cut = 0; cut < whole.size(); cut += 97) {
    const std::vector<size_t> rows = taken(whole.substr(0, cut));
    EXPECT_LE(rows.size(), cut / 1000) << cut;
    for (size_t i = 0; i < rows.size(); ++i) EXPECT_EQ(rows[i], i) << cut;
  }
  std::string flipped = whole;
  flipped[flipped.size() / 2] ^= 1;
  EXPECT_LT(taken(flipped).size(), 4u);
  EXPECT_THAT(taken("noise"), IsEmpty());
  EXPECT_THAT(taken(whole), ElementsAre(0u, 1u, 2u, 3u));
}

TEST_F(RecentRowsTest, AFolderThatIsNotThereKeepsNothing) {
  RecentRows rows(folder_ + "/none");
  rows.Keep(RecentRow(1));
  EXPECT_THAT(TakenOver(rows), IsEmpty());
  RecentRows nowhere("");
  nowhere.Keep(RecentRow(1));
}

// A queue that would wait for an hour stands for a disk that does.
TEST_F(RecentRowsTest, AStoreThatIsKilledBeforeItsCommitLosesNothing) {
  const Key key("kernel", "graph", "environment");
  StoreOptions options{.folder = folder_};
  options.queue.gather = std::chrono::hours(1);
  Killed([&] {
    const auto store = Store::Open(options);
    store->Put(key, "object", 1).IgnoreError();
  });
  {
    const auto store = Store::Open({.folder = folder_});
    const GetResult found = store->Get(key);
    ASSERT_TRUE(found.hit());
    EXPECT_EQ(found.entry.bytes, "object");
    ASSERT_TRUE(store->Flush().ok());
  }
  for (const std::string& file : Files()) {
    const std::string name = std::filesystem::path(file).filename();
    EXPECT_EQ(name.find("recent"), std::string::npos) << name;
  }
  EXPECT_TRUE(Store::Open({.folder = folder_})->Get(key).hit()) << "it is in the file now";
}

}  // namespace
}  // namespace uopd::cache
