// SPDX-License-Identifier: MIT
#include "cache/sqlite/lock_wait.h"

#include <gtest/gtest.h>

#include "cache/sqlite/database.h"
#include "tests/unit/cache/fixture.h"

namespace uopd::cache::sqlite {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using Clock = LockWait::Clock;

TEST(LockWaitTest, PausesGrowWithTheWait) {
  constexpr microseconds kLimit{1'000'000};
  EXPECT_EQ(LockWait::PauseAfter(microseconds(0), kLimit), microseconds(50));
  EXPECT_EQ(LockWait::PauseAfter(microseconds(400), kLimit), microseconds(100));
  EXPECT_EQ(LockWait::PauseAfter(microseconds(20'000), kLimit), microseconds(5'000));
  EXPECT_EQ(LockWait::PauseAfter(microseconds(800'000), kLimit), microseconds(10'000));
  EXPECT_EQ(LockWait::PauseAfter(microseconds(999'999), kLimit), microseconds(1));
  EXPECT_EQ(LockWait::PauseAfter(kLimit, kLimit), std::nullopt);
  EXPECT_EQ(LockWait::PauseAfter(microseconds(0), microseconds(0)), std::nullopt);
}

class LockedFileTest : public StoreFixture {
 protected:
  static constexpr char kCount[] = "SELECT count(*) FROM t";
  std::unique_ptr<Database> Connect(int busy_timeout_ms) const {
    auto db = Database::Open(folder_ + "/locked", {.busy_timeout_ms = busy_timeout_ms});
    EXPECT_TRUE(db.ok()) << db.status();
    return *std::move(db);
  }
};

TEST_F(LockedFileTest, AWaitEndsAtItsLimit) {
  const auto writer = Connect(5000), reader = Connect(20), hasty = Connect(0);
  ASSERT_TRUE(writer->Execute("CREATE TABLE t(x)").ok());
  ASSERT_TRUE(writer->Execute("BEGIN EXCLUSIVE").ok());
  for (int i = 0; i < 2; ++i) {  // each wait begins anew
    const auto begin = Clock::now();
    EXPECT_TRUE(absl::IsUnavailable(reader->QueryInt(kCount).status()));
    EXPECT_GE(Clock::now() - begin, milliseconds(20));
  }
  EXPECT_TRUE(absl::IsUnavailable(hasty->QueryInt(kCount).status()));
  ASSERT_TRUE(writer->Execute("COMMIT").ok());
  EXPECT_EQ(*reader->QueryInt(kCount), 0);
}

}  // namespace
}  // namespace uopd::cache::sqlite
