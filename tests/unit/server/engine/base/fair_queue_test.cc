// SPDX-License-Identifier: MIT
#include "server/engine/base/fair_queue.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace uopd::engine {
namespace {

using testing::ElementsAre;
using Queue = FairQueue<int>;

std::vector<int> PopAll(Queue& queue) {
  std::vector<int> out;
  while (auto taken = queue.Pop()) {
    out.push_back(taken->item);
    queue.Done(taken->flow);
  }
  return out;
}

TEST(FairQueueTest, OneFlowIsFirstInFirstOut) {
  Queue queue({});
  for (int i = 0; i < 5; ++i) queue.Push({"a", "s"}, i);
  EXPECT_THAT(PopAll(queue), ElementsAre(0, 1, 2, 3, 4));
  EXPECT_TRUE(queue.empty());
}

TEST(FairQueueTest, PeersTakeTurnsAndThenTheirFlows) {
  Queue queue({});
  for (int i = 0; i < 4; ++i) queue.Push({"a", "1"}, i);
  for (int i = 10; i < 12; ++i) queue.Push({"a", "2"}, i);
  for (int i = 20; i < 22; ++i) queue.Push({"b", "3"}, i);
  EXPECT_THAT(PopAll(queue), ElementsAre(0, 20, 10, 21, 1, 11, 2, 3));
}

TEST(FairQueueTest, TheFirstOfANewcomerIsNext) {
  Queue queue({});
  for (int i = 0; i < 1000; ++i) queue.Push({"greedy", "1"}, i);
  ASSERT_EQ(queue.Pop()->item, 0);
  queue.Push({"modest", "2"}, -1);
  const int second = queue.Pop()->item, third = queue.Pop()->item;
  EXPECT_TRUE(second == -1 || third == -1) << second << " " << third;
}

TEST(FairQueueTest, WhatIsWithdrawnTakesNoTurn) {
  Queue queue({});
  for (int i = 0; i < 3; ++i) queue.Push({"a", "1"}, i);
  queue.Push({"a", "2"}, 10);
  queue.Push({"b", "3"}, 20);
  const auto is = [](int wanted) { return [wanted](int item) { return item == wanted; }; };
  EXPECT_EQ(queue.Withdraw({"a", "1"}, is(1)), 1);
  EXPECT_EQ(queue.Withdraw({"a", "1"}, is(1)), std::nullopt);
  EXPECT_EQ(queue.Withdraw({"a", "2"}, is(20)), std::nullopt);  // another flow's
  EXPECT_EQ(queue.Withdraw({"c", "1"}, is(0)), std::nullopt);
  EXPECT_EQ(queue.Withdraw({"b", "3"}, is(20)), 20);  // the last of its peer
  EXPECT_EQ(queue.size(), 3u);
  auto running = queue.Pop();
  EXPECT_EQ(running->item, 0);
  EXPECT_EQ(queue.Withdraw({"a", "1"}, is(2)), 2);  // while its flow runs
  EXPECT_THAT(PopAll(queue), ElementsAre(10));
  queue.Done(running->flow);
  queue.Push({"a", "1"}, 5);
  EXPECT_THAT(PopAll(queue), ElementsAre(5));
  EXPECT_TRUE(queue.empty());
}

TEST(FairQueueTest, RunningItemsAreBounded) {
  Queue queue({.of_peer = 3, .of_flow = 2});
  for (int i = 0; i < 4; ++i) queue.Push({"a", "1"}, i);
  for (int i = 10; i < 14; ++i) queue.Push({"a", "2"}, i);
  auto a = queue.Pop(), b = queue.Pop(), c = queue.Pop();
  ASSERT_TRUE(a && b && c);
  EXPECT_FALSE(queue.Pop().has_value());  // three of the peer run
  queue.Push({"b", "3"}, 20);
  auto other = queue.Pop();
  ASSERT_TRUE(other.has_value());
  EXPECT_EQ(other->item, 20);
  queue.Done(b->flow);
  auto next = queue.Pop();
  ASSERT_TRUE(next.has_value());
  EXPECT_FALSE(queue.Pop().has_value());
  for (auto* taken : {&a, &c, &other, &next}) queue.Done((*taken)->flow);
  EXPECT_EQ(PopAll(queue).size(), 4U);
}

}  // namespace
}  // namespace uopd::engine
