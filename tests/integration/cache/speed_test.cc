// SPDX-License-Identifier: MIT
// Prints what a put and a get of 10 KB cost; fails only when the results are wrong.
#include <chrono>
#include <cstdio>

#include "tests/unit/cache/fixture.h"

namespace uopd::cache {
namespace {

using SpeedTest = StoreFixture;

TEST_F(SpeedTest, PutAndGetTenKilobytes) {
  constexpr int kRows = 500;
  std::vector<Key> keys;
  std::vector<std::string> values;
  for (int i = 0; i < kRows; ++i) {
    keys.push_back(KeyOf(i));
    values.push_back(ValueOf(i, 10'000));
  }
  auto store = Open();
  auto measure = [&](const char* what, auto&& one) {
    const auto start = std::chrono::steady_clock::now();
    for (int i = 0; i < kRows; ++i) one(static_cast<size_t>(i));
    const std::chrono::duration<double, std::micro> took = std::chrono::steady_clock::now() - start;
    std::printf("%s: %.1f us\n", what, took.count() / kRows);
  };
  measure("put, queued", [&](size_t i) { ASSERT_TRUE(store->Put(keys[i], values[i], 1).ok()); });
  const auto start = std::chrono::steady_clock::now();
  ASSERT_TRUE(store->Flush().ok());
  const std::chrono::duration<double, std::milli> rest = std::chrono::steady_clock::now() - start;
  std::printf("flush of what was left: %.1f ms\n", rest.count());
  measure("get from disk",
          [&](size_t i) { EXPECT_EQ(store->Get(keys[i]).entry.bytes, values[i]); });
  measure("put and flush", [&](size_t i) {
    ASSERT_TRUE(store->Put(keys[i], values[i], 1).ok());
    ASSERT_TRUE(store->Flush().ok());
  });
  EXPECT_EQ(store->stats().Snapshot("kernel").rows, kRows);
}

}  // namespace
}  // namespace uopd::cache
