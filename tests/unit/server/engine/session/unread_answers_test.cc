// SPDX-License-Identifier: MIT
#include "server/engine/session/unread_answers.h"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include "core/base/text.h"

namespace uopd::engine {
namespace {

constexpr int64_t kMiB = 1 << 20;

class UnreadAnswersTest : public ::testing::Test {
 protected:
  using Held = UnreadAnswers::Held;

  // Holds answers of a MiB until there are no more. Returns how many.
  int Fill(const Caller& caller, std::vector<Held>& held) {
    for (int n = 0;; ++n) {
      auto one = unread_.Hold(caller, kMiB);
      if (!one.ok()) {
        EXPECT_TRUE(absl::IsResourceExhausted(one.status()));
        return n;
      }
      held.push_back(*std::move(one));
    }
  }
  // The same with pieces. Returns their bytes.
  uint64_t FillWithPieces(const Caller& caller, std::vector<Held>& held) {
    uint64_t all = 0;
    for (;;) {
      uint64_t data = kMiB;
      Held one = unread_.HoldPiece(caller, &data);
      if (one.bytes() == 0) return all;
      EXPECT_GE(one.bytes(), static_cast<int64_t>(2 * data)) << "gRPC has a copy";
      all += data;
      held.push_back(std::move(one));
    }
  }

  Quota total_{"limits.total_bytes", 512 * kMiB};
  UnreadAnswers unread_{total_};
  const Caller mean_{"1.2.3.4", "session a", ""}, neighbour_{"1.2.3.4", "session b", ""},
      other_{"5.6.7.8", "session c", ""}, tenant_{"1.2.3.4", "session d", "tenant"};
};

TEST_F(UnreadAnswersTest, WhoDoesNotReadStopsOnlyItself) {
  std::vector<Held> held;
  EXPECT_FALSE(unread_.crowded());
  EXPECT_EQ(Fill(mean_, held), 128) << "a quarter";
  EXPECT_TRUE(unread_.crowded());
  EXPECT_FALSE(unread_.Check(mean_).ok() && unread_.Hold(mean_, kMiB).ok());
  for (const Caller* caller : {&neighbour_, &other_, &tenant_}) {
    EXPECT_TRUE(unread_.Check(*caller).ok());
    EXPECT_TRUE(unread_.Hold(*caller, 64 * kMiB).ok());
  }
  held.pop_back();
  EXPECT_TRUE(unread_.Hold(mean_, kMiB).ok()) << "it has read one";
  held.clear();
  EXPECT_EQ(unread_.all(), 0);
  EXPECT_EQ(unread_.size(), 0u);
  EXPECT_FALSE(unread_.crowded());
}

// Many sessions of one address, and then many addresses.
TEST_F(UnreadAnswersTest, AnAddressHasABoundAndSoHaveAll) {
  std::vector<Held> held;
  for (int i = 0; i < 1000; ++i) {
    auto one = unread_.Hold({"1.2.3.4", Cat("flow ", i), ""}, kMiB);
    if (one.ok()) held.push_back(*std::move(one));
  }
  EXPECT_EQ(held.size(), 257u) << "half of all, and one more than fits";
  EXPECT_TRUE(unread_.Hold(other_, kMiB).ok());
  for (int i = 0; i < 1000; ++i) {
    auto one = unread_.Hold({Cat("peer ", i), Cat("flow of ", i), ""}, kMiB);
    if (one.ok()) held.push_back(*std::move(one));
  }
  EXPECT_EQ(held.size(), 321u) << "five eighths of all, and one more";
  held.resize(200);
  EXPECT_TRUE(unread_.Hold(other_, kMiB).ok());
}

TEST_F(UnreadAnswersTest, PiecesGetSmallAndThenWait) {
  std::vector<Held> held;
  const uint64_t all = FillWithPieces(mean_, held);
  EXPECT_LE(unread_.all(), UnreadAnswers::kPiecesOfFlow);
  EXPECT_GT(unread_.all(), UnreadAnswers::kPiecesOfFlow / 8 * 7);
  EXPECT_GT(all, UnreadAnswers::kPiecesOfFlow / 4);
  EXPECT_GT(held.size(), 900u) << "most downloads go on, in small pieces";
  uint64_t data = kMiB;
  EXPECT_GT(unread_.HoldPiece(neighbour_, &data).bytes(), 0);
  EXPECT_EQ(data, kMiB) << "the neighbour is not slowed";
  held.pop_back();
  data = kMiB;
  EXPECT_GT(unread_.HoldPiece(mean_, &data).bytes(), 0);
  EXPECT_EQ(data, UnreadAnswers::kSmallPiece);
}

TEST_F(UnreadAnswersTest, WhoHasReadEverythingAlwaysGetsAPiece) {
  std::vector<Held> held;
  for (int i = 0; i < 50; ++i) FillWithPieces({"1.2.3.4", Cat("flow ", i), ""}, held);
  EXPECT_LE(unread_.all(),
            256 * kMiB + 50 * (UnreadAnswers::kPieceOverhead + 2 * UnreadAnswers::kSmallPiece));
  EXPECT_FALSE(unread_.Check({"1.2.3.4", "flow 0", ""}).ok());
  uint64_t data = kMiB;
  const Held one = unread_.HoldPiece(neighbour_, &data);
  EXPECT_GT(one.bytes(), 0);
  EXPECT_EQ(data, UnreadAnswers::kSmallPiece);
  data = kMiB;
  EXPECT_EQ(unread_.HoldPiece(neighbour_, &data).bytes(), 0) << "but one alone";
}

TEST_F(UnreadAnswersTest, ASmallLimitMakesSmallPieces) {
  total_.set_limit(3 * kMiB);
  uint64_t data = kMiB;
  EXPECT_GT(unread_.HoldPiece(mean_, &data).bytes(), 0);
  EXPECT_EQ(data, static_cast<uint64_t>(3 * kMiB / 4 / 8));
  EXPECT_TRUE(unread_.Hold(mean_, 100 * kMiB).ok()) << "one answer, whatever its size";
}

TEST_F(UnreadAnswersTest, ThreadsLeaveNothing) {
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 2000; ++i) {
        const Caller caller{Cat("peer ", i % 3), Cat("flow ", (i + t) % 5), ""};
        uint64_t data = kMiB;
        const Held piece = unread_.HoldPiece(caller, &data);
        const auto answer = unread_.Hold(caller, kMiB);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(unread_.all(), 0);
  EXPECT_EQ(unread_.size(), 0u);
}

}  // namespace
}  // namespace uopd::engine
