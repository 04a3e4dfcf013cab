// SPDX-License-Identifier: MIT
#include "server/net/unfinished_messages.h"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

namespace uopd::net {
namespace {

using Share = UnfinishedMessages::Share;

class UnfinishedMessagesTest : public ::testing::Test {
 protected:
  std::unique_ptr<Share> Connect(const std::string& peer, const std::string& name) {
    return std::make_unique<Share>(all_, peer, [this, name] { ended_.push_back(name); });
  }

  const std::shared_ptr<UnfinishedMessages> all_ = std::make_shared<UnfinishedMessages>(100);
  std::vector<std::string> ended_;
};

TEST_F(UnfinishedMessagesTest, WhatIsFinishedOrClosedDoesNotCount) {
  const auto a = Connect("1", "a");
  auto b = Connect("1", "b");
  for (int i = 0; i < 10; ++i) {
    a->Hold(60);
    EXPECT_EQ(all_->bytes(), 60U);
    a->Hold(0);
  }
  a->Hold(60);
  b->Hold(40);
  EXPECT_EQ(all_->bytes(), 100U);
  b = nullptr;
  EXPECT_EQ(all_->bytes(), 60U);
  Connect("2", "c")->Hold(40);
  EXPECT_EQ(all_->bytes(), 60U);
  EXPECT_TRUE(ended_.empty());
}

TEST_F(UnfinishedMessagesTest, TheLargestConnectionOfTheLargestPeerIsEnded) {
  const auto honest = Connect("1", "honest");
  std::vector<std::unique_ptr<Share>> many;
  honest->Hold(30);
  for (int i = 0; i < 7; ++i) many.push_back(Connect("2", std::to_string(i)));
  for (int i = 0; i < 7; ++i) many[static_cast<size_t>(i)]->Hold(i == 3 ? 12 : 10);
  EXPECT_EQ(ended_, std::vector<std::string>{"3"});
  // An ended connection is on its way to be closed. Nobody else is ended for its bytes.
  many[0]->Hold(15);
  many[3]->Hold(12);
  EXPECT_EQ(ended_.size(), 1U);
  honest->Hold(90);
  EXPECT_EQ(ended_, (std::vector<std::string>{"3", "honest"}));
}

TEST_F(UnfinishedMessagesTest, OneConnectionCannotHoldMore) {
  const auto a = Connect("1", "a");
  a->Hold(101);
  EXPECT_EQ(ended_, std::vector<std::string>{"a"});
  a->Hold(500);
  EXPECT_EQ(ended_.size(), 1U);
}

TEST_F(UnfinishedMessagesTest, ManyThreadsLeaveNothingBehind) {
  std::vector<std::jthread> threads;
  std::atomic<int> ended = 0;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 2'000; ++i) {
        Share share(all_, std::to_string(t), [&] { ++ended; });
        share.Hold(static_cast<uint64_t>(i % 60));
        share.Hold(1);
      }
    });
  }
  threads.clear();
  EXPECT_EQ(all_->bytes(), 0U);
}

}  // namespace
}  // namespace uopd::net
