// SPDX-License-Identifier: MIT
#include "server/net/freed_memory.h"

#include <gtest/gtest.h>
#include <malloc.h>
#include <unistd.h>

#include <fstream>
#include <memory>
#include <vector>

namespace uopd::net {
namespace {

size_t Resident() {
  size_t size = 0, resident = 0;
  std::ifstream("/proc/self/statm") >> size >> resident;
  return resident * static_cast<size_t>(sysconf(_SC_PAGESIZE));
}

TEST(FreedMemory, GoesBackSomeTimeAfterAConnectionWasClosed) {
#if defined(UOPD_SANITIZED)
  GTEST_SKIP() << "a sanitizer has its own malloc";
#endif
  using Clock = FreedMemory::Clock;
  FreedMemory freed;
  Clock::time_point now{std::chrono::hours(1)};
  std::vector<std::unique_ptr<char[]>> pieces;
  for (int i = 0; i < 50'000; ++i) pieces.push_back(std::make_unique<char[]>(4'000));
  // What stays is last in the memory, so free() alone gives nothing back.
  const auto last = std::make_unique<char[]>(4'000);
  const size_t before = Resident();
  pieces.clear();
  ASSERT_GT(Resident() + (20 << 20), before);

  EXPECT_FALSE(freed.Tick(now)) << "nothing was closed";
  freed.OnClosed(now);
  EXPECT_FALSE(freed.Tick(now)) << "the connection has not freed everything yet";
  now += FreedMemory::kSettled;
  EXPECT_TRUE(freed.Tick(now));
  EXPECT_LT(Resident() + (150 << 20), before);
  EXPECT_FALSE(freed.waits());
}

TEST(FreedMemory, HappensRarely) {
#if defined(UOPD_SANITIZED)
  GTEST_SKIP() << "a sanitizer has its own malloc";
#endif
  FreedMemory freed;
  FreedMemory::Clock::time_point now{std::chrono::hours(1)};
  std::vector<std::unique_ptr<char[]>> pieces;
  for (int i = 0; i < 50'000; ++i) pieces.push_back(std::make_unique<char[]>(4'000));
  const auto last = std::make_unique<char[]>(4'000);
  pieces.clear();
  freed.OnClosed(now);
  now += FreedMemory::kSettled;
  ASSERT_TRUE(freed.Tick(now));
  freed.OnClosed(now);
  now += FreedMemory::kSettled;
  EXPECT_FALSE(freed.Tick(now));
  EXPECT_TRUE(freed.waits()) << "it is done later";
  now += std::chrono::hours(1);
  EXPECT_TRUE(freed.Tick(now));
}

}  // namespace
}  // namespace uopd::net
