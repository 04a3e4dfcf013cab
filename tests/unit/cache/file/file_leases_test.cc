// SPDX-License-Identifier: MIT
// What becomes of the leases when their file does not do.
#include "cache/file/file_leases.h"

#include <memory>

#include "cache/file/lease_schema.h"
#include "cache/sqlite/transaction.h"
#include "tests/unit/cache/file/holder_process.h"
#include "tests/unit/cache/fixture.h"

namespace uopd::cache {
namespace {

constexpr int64_t kSecond = 1'000'000;

class FileLeasesTest : public StoreFixture {
 protected:
  FileLeases Make() {
    return FileLeases({.folder = folder_,
                       .busy_timeout_ms = 20,
                       .retry_us = kSecond,
                       .now = options_.now,
                       .on_failure = [this](const std::string& reason) { failure_ = reason; }});
  }
  std::string lease_path() const { return folder_ + "/" + lease_schema::kFileName; }
  const Digest one_ = HashBytes("one"), two_ = HashBytes("two");
  std::string failure_;
};

TEST_F(FileLeasesTest, TwoObjectsShareAFile) {
  FileLeases a = Make(), b = Make();
  const LeaseResult lease = a.TryLease(one_, "a", kSecond);
  ASSERT_TRUE(lease.granted());
  EXPECT_EQ(b.TryLease(one_, "b", kSecond).holder, "a");
  EXPECT_TRUE(b.IsHeld(one_));
  EXPECT_TRUE(b.CheckNewest(one_, lease.token).ok());
  EXPECT_TRUE(absl::IsAborted(b.CheckNewest(two_, lease.token)));
  ASSERT_TRUE(b.Release(one_, lease.token).ok());
  EXPECT_FALSE(a.IsHeld(one_));
  EXPECT_GT(b.TryLease(one_, "b", kSecond).token, lease.token);
  EXPECT_TRUE(absl::IsAborted(a.Renew(one_, lease.token, kSecond)));
  EXPECT_TRUE(absl::IsAborted(a.CheckNewest(one_, lease.token)));
}

TEST_F(FileLeasesTest, NoiseIsReplacedAndTokensGrowOn) {
  int64_t token;
  {
    FileLeases before = Make();
    token = before.TryLease(one_, "a", kSecond).token;
  }
  std::ofstream(lease_path(), std::ios::binary) << std::string(20'000, 'n');
  now_us_ += 1;
  FileLeases a = Make(), b = Make();
  const LeaseResult lease = a.TryLease(one_, "a", kSecond);
  ASSERT_TRUE(lease.granted());
  EXPECT_GT(lease.token, token);
  EXPECT_EQ(b.TryLease(one_, "b", kSecond).outcome, LeaseOutcome::kBusy);
  // Noise under an open file.
  std::fstream file(lease_path(), std::ios::in | std::ios::out | std::ios::binary);
  file << std::string(20'000, 'n');
  file.close();
  now_us_ += 2 * kSecond;
  const LeaseResult after = b.TryLease(two_, "b", kSecond);
  ASSERT_TRUE(after.granted());
  EXPECT_GT(after.token, lease.token);
  EXPECT_TRUE(a.IsHeld(two_));
  EXPECT_EQ(failure_, "");
}

TEST_F(FileLeasesTest, NoiseInAnyPageIsFoundWhenItIsOpened) {
  {
    FileLeases before = Make();
    for (int i = 0; i < 500; ++i) {
      ASSERT_TRUE(before.TryLease(HashBytes(std::to_string(i)), "a", kSecond).granted());
    }
  }
  const auto size = static_cast<int64_t>(std::filesystem::file_size(lease_path()));
  ASSERT_GT(size, 10 * 4096);
  std::fstream(lease_path(), std::ios::in | std::ios::out | std::ios::binary).seekp(size - 2 * 4096)
      << std::string(4096, 'n');
  FileLeases leases = Make();
  for (int i = 0; i < 500; ++i) {
    EXPECT_TRUE(leases.TryLease(HashBytes(std::to_string(i)), "b", kSecond).granted());
  }
  EXPECT_EQ(failure_, "");
}

class DeadOwnerTest : public FileLeasesTest {
 protected:
  static constexpr int64_t kHour = 3600 * kSecond;
  // Makes its FileLeases in the other process, which keeps it.
  std::unique_ptr<HolderProcess> Hold() {
    return std::make_unique<HolderProcess>([this] {
      leases_ = new FileLeases(Options());
      return leases_->TryLease(one_, "other", kHour).granted();
    });
  }
  FileLeasesOptions Options() { return {.folder = folder_, .now = options_.now}; }
  FileLeases* leases_ = nullptr;
};

TEST_F(DeadOwnerTest, ItsLeaseIsFreeAtOnceForAllOthers) {
  auto holder = Hold();
  FileLeases a(Options()), b(Options());
  const LeaseResult mine = a.TryLease(two_, "a", kHour);
  ASSERT_TRUE(mine.granted());
  EXPECT_EQ(a.TryLease(one_, "a", kSecond).holder, "other");
  EXPECT_TRUE(b.IsHeld(one_));
  holder->Freeze();  // it may go on
  EXPECT_TRUE(a.IsHeld(one_));
  EXPECT_EQ(b.TryLease(one_, "b", kSecond).outcome, LeaseOutcome::kBusy);
  holder->Kill();
  EXPECT_FALSE(a.IsHeld(one_));
  const LeaseResult taken = b.TryLease(one_, "b", kHour);
  ASSERT_TRUE(taken.granted());
  EXPECT_GT(taken.token, mine.token);
  EXPECT_EQ(a.TryLease(one_, "a", kSecond).holder, "b") << "one of them takes it";
  EXPECT_TRUE(b.IsHeld(two_)) << "a lives";
  EXPECT_TRUE(a.IsHeld(two_)) << "its own";
}

TEST_F(DeadOwnerTest, AnObjectThatEndedFreesItsLeases) {
  FileLeases a(Options());
  {
    FileLeases b(Options());
    ASSERT_TRUE(b.TryLease(one_, "b", kHour).granted());
    EXPECT_TRUE(a.IsHeld(one_));
  }
  EXPECT_TRUE(a.TryLease(one_, "a", kHour).granted());
}

// What cannot be told is not taken: the lease ends when it is not renewed.
TEST_F(DeadOwnerTest, WhoCannotBeSeenIsNotDead) {
  {
    FileLeases a(Options());
    ASSERT_TRUE(a.TryLease(one_, "a", 10 * kSecond).granted());
    ASSERT_TRUE(a.TryLease(two_, "a", 10 * kSecond).granted());
  }
  {
    auto db = sqlite::Database::Open(lease_path(), {});
    ASSERT_TRUE(db.ok());
    // As a version writes it that knows no marks, and as a machine whose boot has another name.
    ASSERT_TRUE((*db)
                    ->Execute("DELETE FROM life WHERE token=(SELECT min(token) FROM life);"
                              "UPDATE life SET mark=CAST('x' || CAST(mark AS TEXT) AS BLOB)")
                    .ok());
  }
  FileLeases b(Options());
  EXPECT_EQ(b.TryLease(one_, "b", kSecond).holder, "a");
  EXPECT_EQ(b.TryLease(two_, "b", kSecond).holder, "a");
  now_us_ += 11 * kSecond;
  EXPECT_TRUE(b.TryLease(one_, "b", kSecond).granted());
}

TEST_F(DeadOwnerTest, AnotherFileOfLocksTellsNothing) {
  auto holder = Hold();
  std::filesystem::rename(folder_ + "/" + lease_schema::kLifeName, folder_ + "/moved");
  FileLeases b(Options());
  EXPECT_TRUE(b.IsHeld(one_));
  holder->Kill();
  EXPECT_TRUE(b.IsHeld(one_));
}

TEST_F(DeadOwnerTest, MarksOfOldLeasesAreForgotten) {
  FileLeases a(Options());
  for (int i = 0; i < 3; ++i) {
    const Digest address = HashBytes(std::to_string(i));
    ASSERT_TRUE(a.Release(address, a.TryLease(address, "a", kSecond).token).ok());
  }
  now_us_ += kHour + kSecond;
  ASSERT_TRUE(a.TryLease(one_, "a", kSecond).granted());
  auto db = sqlite::Database::Open(lease_path(), {});
  ASSERT_TRUE(db.ok());
  EXPECT_EQ(*(*db)->QueryText("SELECT CAST(count(*) AS TEXT) FROM life"), "1");
}

TEST(LifeLockTest, SaysDeadOnlyWhenItIsCertain) {
  std::string folder = (std::filesystem::temp_directory_path() / "uopd-life-XXXXXX").string();
  ASSERT_NE(mkdtemp(folder.data()), nullptr);
  const std::string path = folder + "/life";
  const LifeLock a(path);
  ASSERT_FALSE(a.mark().empty());
  std::string gone;
  {
    const LifeLock b(path);
    gone = b.mark();
    EXPECT_NE(gone, a.mark());
    EXPECT_FALSE(a.IsDead(gone));
    EXPECT_FALSE(b.IsDead(a.mark()));
  }
  EXPECT_TRUE(a.IsDead(gone));
  EXPECT_FALSE(a.IsDead(a.mark()));
  for (const std::string& odd :
       {std::string(), std::string("x"), gone + " ", gone + "x", " " + gone,
        gone.substr(0, gone.rfind(' ')), gone.substr(0, gone.rfind(' ') + 1) + "-1",
        gone + "00000000000000000000"}) {
    EXPECT_FALSE(a.IsDead(odd)) << odd;
  }
  const LifeLock none(folder + "/missing/life");
  EXPECT_EQ(none.mark(), "");
  EXPECT_FALSE(none.IsDead(gone));
  std::filesystem::remove_all(folder);
}

// Bits that flip in a row hold nobody up, and move no tokens.
TEST_F(FileLeasesTest, NumbersThatCannotBeAreDamage) {
  FileLeases leases = Make();
  const LeaseResult lease = leases.TryLease(one_, "a", kSecond);
  auto tamper = [&](const char* sql) {
    auto db = sqlite::Database::Open(lease_path(), {});
    ASSERT_TRUE(db.ok() && (*db)->Execute(sql).ok());
  };
  tamper("UPDATE lease SET expires_us=9000000000000000000");
  EXPECT_FALSE(leases.IsHeld(one_));
  EXPECT_TRUE(leases.TryLease(one_, "b", kSecond).granted());
  tamper("UPDATE fence SET last_token=9223372036854775807");
  now_us_ += 10 * kSecond;
  const LeaseResult after = leases.TryLease(one_, "b", kSecond);
  ASSERT_TRUE(after.granted());
  EXPECT_GT(after.token, lease.token);
  EXPECT_LE(after.token, now_us_ + 10);
}

TEST_F(FileLeasesTest, ADeletedFileIsMadeAgainAndSharedAgain) {
  FileLeases a = Make(), b = Make();
  ASSERT_TRUE(a.TryLease(one_, "a", kSecond).granted());
  ASSERT_TRUE(b.IsHeld(one_));
  std::filesystem::remove(lease_path());
  const LeaseResult lease = b.TryLease(one_, "b", kSecond);
  ASSERT_TRUE(lease.granted());
  EXPECT_EQ(a.TryLease(one_, "a", kSecond).holder, "b");
}

TEST_F(FileLeasesTest, ALockedFileGrantsNothingAndLosesNothing) {
  FileLeases leases = Make();
  const LeaseResult lease = leases.TryLease(one_, "a", kSecond);
  ASSERT_TRUE(lease.granted());
  auto db = sqlite::Database::Open(lease_path(), {});
  ASSERT_TRUE(db.ok());
  {
    sqlite::Transaction lock(**db);
    ASSERT_TRUE(lock.Begin().ok());
    EXPECT_EQ(leases.TryLease(two_, "a", kSecond).outcome, LeaseOutcome::kUnavailable);
    EXPECT_TRUE(absl::IsUnavailable(leases.Renew(one_, lease.token, kSecond)));
  }
  EXPECT_TRUE(leases.Renew(one_, lease.token, kSecond).ok());
  EXPECT_TRUE(leases.TryLease(two_, "a", kSecond).granted());
  EXPECT_EQ(failure_, "");
}

TEST_F(FileLeasesTest, WithoutAFileTheyHoldWithinTheProcess) {
  std::filesystem::create_directory(lease_path());  // nothing can be opened there
  FileLeases leases = Make(), other = Make();
  const LeaseResult lease = leases.TryLease(one_, "a", 10 * kSecond);
  ASSERT_TRUE(lease.granted());
  EXPECT_NE(failure_.find(lease_path()), std::string::npos) << failure_;
  EXPECT_EQ(leases.TryLease(one_, "b", kSecond).outcome, LeaseOutcome::kBusy);
  EXPECT_TRUE(leases.IsHeld(one_));
  EXPECT_TRUE(leases.CheckNewest(one_, lease.token).ok());
  EXPECT_TRUE(other.TryLease(one_, "c", kSecond).granted());  // as in another process
  std::filesystem::remove(lease_path());
  now_us_ += 2 * kSecond;  // past the time of the next attempt
  const LeaseResult shared = leases.TryLease(two_, "a", kSecond);
  ASSERT_TRUE(shared.granted());
  EXPECT_TRUE(other.IsHeld(two_));
  // What was granted without the file is still held, renewed and released.
  EXPECT_TRUE(leases.Renew(one_, lease.token, kSecond).ok());
  EXPECT_TRUE(leases.Release(one_, lease.token).ok());
}

}  // namespace
}  // namespace uopd::cache
