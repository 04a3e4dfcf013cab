// SPDX-License-Identifier: MIT
#include "devices/api/memory_pool.h"

#include <cstdlib>
#include <cstring>
#include <set>
#include <thread>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

namespace uopd::devices {
namespace {

// Counts what is outstanding, and has no more than `capacity` to give.
class FakeMemory final : public RawMemory {
 public:
  FakeMemory(size_t capacity, size_t& outstanding)
      : capacity_(capacity), outstanding_(outstanding) {}
  void* Allocate(size_t bytes) override {
    MutexLock lock(mu_);
    if (outstanding_ + bytes > capacity_) return nullptr;
    outstanding_ += bytes;
    return std::malloc(bytes);
  }
  void Free(void* data, size_t bytes) override {
    MutexLock lock(mu_);
    outstanding_ -= bytes;
    std::free(data);
  }
  std::string Scarcity(size_t bytes) const override {
    return absl::StrCat(bytes, " bytes are more than the group allows");
  }
  absl::Status Fill(void* data, size_t bytes, std::byte value) override {
    if (value == std::byte{0}) return absl::UnavailableError("lost");
    std::memset(data, std::to_integer<int>(value), bytes);
    return absl::OkStatus();
  }

 private:
  Mutex mu_;
  const size_t capacity_;
  size_t& outstanding_;
};

TEST(MemoryPoolTest, SizeClassesWasteLittle) {
  for (size_t n = 1; n < 100'000; n += 7) {
    const size_t size = MemoryPool::SizeClass(n);
    EXPECT_GE(size, n);
    EXPECT_LE(size, std::max<size_t>(n + n / 8, n + 63)) << n;
    EXPECT_EQ(MemoryPool::SizeClass(size), size) << n;
  }
  EXPECT_EQ(MemoryPool::SizeClass(0), 64u);
}

TEST(MemoryPoolTest, SaysWhyTheMemoryIsScarce) {
  size_t outstanding = 0;
  MemoryPool pool(std::make_unique<FakeMemory>(1000, outstanding), {1 << 20, 1 << 20});
  const auto refused = pool.Allocate(4096);
  EXPECT_TRUE(absl::IsResourceExhausted(refused.status()));
  EXPECT_NE(StatusText(refused.status()).find("fails: 4096 bytes are more than the group allows"),
            std::string::npos)
      << StatusText(refused.status());
}

TEST(MemoryPoolTest, ReusesTheNewestBlockOfAClass) {
  size_t outstanding = 0;
  MemoryPool pool(std::make_unique<FakeMemory>(1 << 20, outstanding), {1 << 20, 1 << 20});
  auto a = pool.Allocate(1000).value(), b = pool.Allocate(1010).value();
  ASSERT_EQ(a.bytes, b.bytes);
  pool.Free(a);
  pool.Free(b);
  EXPECT_EQ(pool.Allocate(990)->data, b.data);
  EXPECT_EQ(pool.Allocate(1024)->data, a.data);
  EXPECT_EQ(pool.stats().pool_hits, 2u);
  pool.Free(a);
  pool.Free(b);
}

// New blocks and kept ones, all of their bytes.
TEST(MemoryPoolTest, FillsWhatItGives) {
  size_t outstanding = 0;
  MemoryPool pool(std::make_unique<FakeMemory>(1 << 20, outstanding),
                  {1 << 20, 1 << 20, PatternOf(std::byte{'p'})});
  for (int round = 0; round < 2; ++round) {
    const auto block = pool.Allocate(1000).value();
    const std::string_view bytes(static_cast<const char*>(block.data), block.bytes);
    EXPECT_EQ(bytes.find_first_not_of('p'), std::string_view::npos);
    std::memset(block.data, 'x', block.bytes);
    pool.Free(block);
  }
  EXPECT_EQ(pool.stats().pool_hits, 1u);
}

TEST(MemoryPoolTest, ABlockThatCannotBeFilledGoesBack) {
  size_t outstanding = 0;
  MemoryPool pool(std::make_unique<FakeMemory>(1 << 20, outstanding),
                  {1 << 20, 0, PatternOf(std::byte{0})});
  EXPECT_TRUE(absl::IsUnavailable(pool.Allocate(1000).status()));
  EXPECT_EQ(pool.stats().used_bytes, 0u);
  EXPECT_EQ(outstanding, 0u);
}

TEST(MemoryPoolTest, KeepsNoMoreThanItsBoundAndDropsTheOldest) {
  size_t outstanding = 0;
  MemoryPool pool(std::make_unique<FakeMemory>(1 << 20, outstanding), {1 << 20, 2048});
  auto a = pool.Allocate(1024).value(), b = pool.Allocate(1024).value(),
       c = pool.Allocate(512).value();
  auto big = pool.Allocate(4096).value();
  pool.Free(a);
  pool.Free(b);
  pool.Free(c);    // a goes
  pool.Free(big);  // more than the bound: not kept
  EXPECT_EQ(pool.stats().pooled_bytes, 1536u);
  EXPECT_EQ(outstanding, 1536u);
  EXPECT_EQ(pool.stats().used_bytes, 0u);
  EXPECT_EQ(pool.stats().peak_bytes, 1024u + 1024 + 512 + 4096);
  pool.Trim();
  EXPECT_EQ(outstanding, 0u);
}

TEST(MemoryPoolTest, GivesKeptBlocksBackBeforeItRefuses) {
  size_t outstanding = 0;
  MemoryPool pool(std::make_unique<FakeMemory>(1 << 20, outstanding), {4096, 4096});
  pool.Free(pool.Allocate(2048).value());
  auto block = pool.Allocate(4096);
  ASSERT_TRUE(block.ok()) << block.status();
  EXPECT_EQ(outstanding, 4096u);
  EXPECT_EQ(pool.Allocate(1).status().code(), absl::StatusCode::kResourceExhausted);
  pool.Free(*block);
}

TEST(MemoryPoolTest, TheLastBytesBelowTheLimitCanBeHad) {
  size_t outstanding = 0;
  MemoryPool pool(std::make_unique<FakeMemory>(1 << 20, outstanding), {4160, 4160});
  auto block = pool.Allocate(4160);  // its class is 4608
  ASSERT_TRUE(block.ok()) << block.status();
  pool.Free(*block);
}

TEST(MemoryPoolTest, TrimsWhenTheMachineHasNothingLeft) {
  size_t outstanding = 0;
  MemoryPool pool(std::make_unique<FakeMemory>(4096, outstanding), {1 << 20, 1 << 20});
  pool.Free(pool.Allocate(2048).value());
  auto block = pool.Allocate(4096);
  ASSERT_TRUE(block.ok()) << block.status();
  EXPECT_EQ(pool.Allocate(64).status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(pool.stats().used_bytes, 4096u);
  pool.Free(*block);
}

TEST(MemoryPoolTest, ThreadsNeverPassTheLimitTogether) {
  size_t outstanding = 0;
  constexpr size_t kLimit = 8192;
  {
    MemoryPool pool(std::make_unique<FakeMemory>(kLimit, outstanding), {kLimit, kLimit / 2});
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; ++t) {
      threads.emplace_back([&, t] {
        for (size_t i = 0; i < 2000; ++i) {
          auto block = pool.Allocate(64 * (1 + (i * 7 + t) % 40));
          if (!block.ok()) continue;
          *static_cast<char*>(block->data) = 1;
          pool.Free(*block);
        }
      });
    }
    for (auto& thread : threads) thread.join();
    EXPECT_LE(pool.stats().peak_bytes, kLimit);
    EXPECT_EQ(pool.stats().used_bytes, 0u);
  }
  EXPECT_EQ(outstanding, 0u);
}

}  // namespace
}  // namespace uopd::devices
