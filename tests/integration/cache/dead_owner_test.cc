// SPDX-License-Identifier: MIT
// Leases that a real Redis grants, when a process of the folder dies that has one.
#include <gtest/gtest.h>

#include <filesystem>

#include "cache/cluster/cluster_leases.h"
#include "cache/file/file_leases.h"
#include "cache/redis/redis_shared_server.h"
#include "tests/support/redis/redis_process.h"
#include "tests/unit/cache/file/holder_process.h"
#include "tests/unit/cache/fixture.h"

namespace uopd::cache {
namespace {

constexpr int64_t kLongUs = 3600 * int64_t{1'000'000};

class DeadClusterOwnerTest : public StoreFixture {
 protected:
  void SetUp() override {
    StoreFixture::SetUp();
    auto started = test::RedisProcess::Start({});
    ASSERT_TRUE(started.ok()) << started.status();
    redis_ = *std::move(started);
    other_folder_ = folder_ + "/other machine";
    std::filesystem::create_directories(other_folder_);
  }
  // As a daemon of the folder has them.
  std::unique_ptr<ClusterLeases> Open(const std::string& folder) const {
    auto local = std::make_unique<FileLeases>(FileLeasesOptions{.folder = folder});
    FileLeases& marks = *local;
    auto server = std::make_shared<GuardedServer>(
        std::make_unique<RedisSharedServer>(RedisSharedOptions{
            .pool = {.url = *ParseRedisUrl("redis+unix://" + redis_->socket())}}),
        BreakerOptions{}, std::chrono::seconds(5), WallClockUs, SteadyNow, nullptr);
    return std::make_unique<ClusterLeases>(std::move(server), std::move(local),
                                           std::chrono::seconds(5), &marks);
  }
  std::unique_ptr<HolderProcess> Hold() {
    return std::make_unique<HolderProcess>([this] {
      leases_ = Open(folder_).release();
      return leases_->TryLease(one_, "dead", kLongUs).granted();
    });
  }

  const Digest one_ = HashBytes("one");
  std::unique_ptr<test::RedisProcess> redis_;
  std::string other_folder_;
  ClusterLeases* leases_ = nullptr;
};

TEST_F(DeadClusterOwnerTest, ItsLeaseIsFreeAtOnceForItsFolder) {
  const auto holder = Hold();
  const auto a = Open(folder_), b = Open(folder_), elsewhere = Open(other_folder_);
  EXPECT_EQ(a->TryLease(one_, "a", kLongUs).holder, "dead");
  holder->Freeze();  // it may go on
  EXPECT_TRUE(a->IsHeld(one_));
  EXPECT_EQ(a->TryLease(one_, "a", kLongUs).outcome, LeaseOutcome::kBusy);
  holder->Kill();
  EXPECT_EQ(elsewhere->TryLease(one_, "elsewhere", kLongUs).holder, "dead")
      << "another machine cannot know";
  const LeaseResult taken = a->TryLease(one_, "a", kLongUs);
  ASSERT_TRUE(taken.granted());
  EXPECT_EQ(b->TryLease(one_, "b", kLongUs).holder, "a") << "one of them takes it, and it lives";
  EXPECT_TRUE(b->IsHeld(one_));
  EXPECT_TRUE(a->Renew(one_, taken.token, kLongUs).ok());
}

TEST_F(DeadClusterOwnerTest, WhoWaitsForItSeesThatItIsFree) {
  const auto holder = Hold();
  const auto a = Open(folder_), elsewhere = Open(other_folder_);
  EXPECT_TRUE(a->IsHeld(one_));
  holder->Kill();
  EXPECT_TRUE(elsewhere->IsHeld(one_));
  EXPECT_FALSE(a->IsHeld(one_));
  EXPECT_FALSE(elsewhere->IsHeld(one_)) << "for all machines";
}

// The dead one had lost it before.
TEST_F(DeadClusterOwnerTest, TheLeaseOfAnotherMachineStays) {
  const auto holder = Hold();
  const auto a = Open(folder_), elsewhere = Open(other_folder_);
  {
    RedisPool pool({.url = *ParseRedisUrl("redis+unix://" + redis_->socket())});
    const Deadline soon = SteadyNow() + std::chrono::seconds(5);
    auto connection = pool.Take(soon);
    ASSERT_TRUE(connection.ok()) << connection.status();
    const std::string lease = "uopd:1:{" + one_.Hex() + "}:lease";
    ASSERT_TRUE((*connection)->Run({"DEL", lease}, soon).ok());
  }
  const LeaseResult theirs = elsewhere->TryLease(one_, "elsewhere", kLongUs);
  ASSERT_TRUE(theirs.granted());
  holder->Kill();
  EXPECT_TRUE(a->IsHeld(one_));
  EXPECT_EQ(a->TryLease(one_, "a", kLongUs).holder, "elsewhere");
  EXPECT_TRUE(elsewhere->Renew(one_, theirs.token, kLongUs).ok());
}

TEST_F(DeadClusterOwnerTest, AMarkIsThereAsLongAsItsLease) {
  const auto a = Open(folder_);
  FileLeases other({.folder = folder_});
  int64_t token = 0;
  {
    const auto ended = Open(folder_);
    token = ended->TryLease(one_, "ended", kLongUs).token;
    EXPECT_EQ(other.TokenOfDead(one_), std::nullopt) << "it lives";
  }
  EXPECT_EQ(other.TokenOfDead(one_), token);
  EXPECT_EQ(other.TokenOfDead(HashBytes("two")), std::nullopt);
  const LeaseResult taken = a->TryLease(one_, "a", kLongUs);
  ASSERT_TRUE(taken.granted());
  EXPECT_EQ(other.TokenOfDead(one_), std::nullopt) << "the mark is that of a";
  ASSERT_TRUE(a->Release(one_, taken.token).ok());
  auto db = sqlite::Database::Open(folder_ + "/uopd-leases-v1.sqlite", {});
  ASSERT_TRUE(db.ok());
  EXPECT_EQ(*(*db)->QueryText("SELECT CAST(count(*) AS TEXT) FROM shared"), "0");
}

}  // namespace
}  // namespace uopd::cache
