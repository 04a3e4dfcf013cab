// SPDX-License-Identifier: MIT
#include "cache/base/wait/flights.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

namespace uopd::cache {
namespace {

using testing::ElementsAre;
using testing::Optional;

using Table = Flights<int, std::atomic<int>>;
const Digest kKey = HashBytes("key"), kOther = HashBytes("another");

TEST(FlightsTest, TheFirstComputesAndAllGetTheAnswer) {
  Table table;
  const Table::Joined one = table.Join(kKey, 1), two = table.Join(kKey, 2);
  const Table::Joined other = table.Join(kOther, 3);
  EXPECT_TRUE(one.first && other.first);
  EXPECT_FALSE(two.first);
  EXPECT_EQ(two.flight, one.flight);
  EXPECT_EQ(table.wanted(kKey), 2);
  Table::Leave(*two.flight);
  EXPECT_EQ(table.wanted(kKey), 1);
  EXPECT_THAT(table.Land(kKey, *one.flight), Optional(ElementsAre(1, 2))) << "also who has left";
  EXPECT_EQ(table.wanted(kKey), 0);
  EXPECT_TRUE(table.Join(kKey, 4).first);
}

TEST(FlightsTest, WorkThatGaveUpGoesOnForWhoHasCome) {
  Table table;
  const auto flight = table.Join(kKey, 1).flight;
  Table::Leave(*flight);
  EXPECT_EQ(flight->wanted(), 0);
  EXPECT_FALSE(table.Join(kKey, 2).first);
  EXPECT_EQ(table.Land(kKey, *flight, /*gave_up=*/true), std::nullopt);
  Table::Leave(*flight);
  EXPECT_THAT(table.Land(kKey, *flight, /*gave_up=*/true), Optional(ElementsAre(1, 2)));
}

TEST(FlightsTest, WhoWithdrawsIsForgotten) {
  Table table;
  const auto flight = table.Join(kKey, 1).flight;
  table.Join(kKey, 2);
  table.Withdraw(*flight, 2);
  EXPECT_EQ(flight->wanted(), 1);
  EXPECT_THAT(table.Land(kKey, *flight), Optional(ElementsAre(1)));
}

TEST(FlightsTest, WhatTheWorkShows) {
  Table table;
  table.Join(kKey, 1).flight->shared() = 7;
  table.Join(kKey, 2);
  table.ForEach([](const std::vector<int>& callers, const std::atomic<int>& shared) {
    EXPECT_THAT(callers, ElementsAre(1, 2));
    EXPECT_EQ(shared, 7);
  });
}

TEST(FlightsTest, ManyThreadsNobodyIsForgotten) {
  constexpr int kThreads = 8, kRounds = 2000;
  Table table;
  std::atomic<int> answered{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < kRounds; ++i) {
        const Table::Joined joined = table.Join(kKey, t);
        if (joined.first) answered += static_cast<int>(table.Land(kKey, *joined.flight)->size());
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(answered, kThreads * kRounds);
}

}  // namespace
}  // namespace uopd::cache
