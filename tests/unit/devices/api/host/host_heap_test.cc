// SPDX-License-Identifier: MIT
#include "devices/api/host/host_heap.h"

#include <sys/resource.h>

#include <cstring>

#include "gtest/gtest.h"

namespace uopd::devices {
namespace {

TEST(HostHeapTest, DefaultsLeaveRoomForOthers) {
  const HostHeap::Options options = HostHeap::Completed({});
  EXPECT_GT(options.limit_bytes, 0u);
  EXPECT_LE(options.limit_bytes, HostMemoryBytes() / 4 * 3);
  EXPECT_LE(options.keep_bytes, options.limit_bytes / 4);
  EXPECT_EQ(HostHeap::Completed({.limit_bytes = 1000, .keep_bytes = 100}).keep_bytes, 100u);
}

TEST(HostHeapTest, NeverPromisesWhatTheMachineDoesNotHave) {
  constexpr size_t kHuge = size_t{1} << 44;  // Linux would map it and kill somebody later
  HostHeap heap({.limit_bytes = 2 * kHuge});
  EXPECT_EQ(heap.Allocate(nullptr, kHuge, MemoryKind::kDevice).status().code(),
            absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(heap.stats().used_bytes, 0u);
}

TEST(HostHeapTest, BigBlocksStartOnHugePages) {
  HostHeap heap({.limit_bytes = size_t{256} << 20});
  for (size_t bytes : {size_t{2} << 20, (size_t{3} << 20) + 1, size_t{70} << 20}) {
    auto buffer = heap.Allocate(nullptr, bytes, MemoryKind::kDevice).value();
    EXPECT_EQ(reinterpret_cast<uintptr_t>(buffer->host_data()) % (size_t{2} << 20), 0u) << bytes;
    buffer->host_data()[0] = buffer->host_data()[bytes - 1] = std::byte{1};
  }
}

// Page faults of this process so far.
int64_t Faults() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_minflt;
}

// A run that repeats gets the memory of the run before: its pages are mapped already.
TEST(HostHeapTest, ReusedMemoryKeepsItsPages) {
  HostHeap heap({.limit_bytes = size_t{1} << 30});
  int64_t faults[3];
  for (int64_t& mine : faults) {
    const int64_t before = Faults();
    for (const size_t bytes : {size_t{64} << 20, size_t{1} << 20, size_t{24} << 20}) {
      auto buffer = heap.Allocate(nullptr, bytes, MemoryKind::kDevice).value();
      std::memset(buffer->host_data(), 1, bytes);
    }
    mine = Faults() - before;
  }
  EXPECT_GT(faults[0], 40);  // one for each huge page, more without huge pages
  EXPECT_LT(faults[2], 8);
}

TEST(HostHeapTest, ClearsReusedMemoryToo) {
  HostHeap heap({.limit_bytes = size_t{1} << 20, .clear = true});
  for (int round = 0; round < 2; ++round) {
    auto buffer = heap.Allocate(nullptr, 500, MemoryKind::kDevice).value();
    for (size_t i = 0; i < 500; ++i) ASSERT_EQ(buffer->host_data()[i], std::byte{0}) << i;
    std::memset(buffer->host_data(), 1, 500);
  }
}

TEST(HostHeapTest, FillsReusedMemoryToo) {
  HostHeap heap({.limit_bytes = size_t{1} << 20, .pattern = PatternOf(std::byte{0xA5})});
  for (int round = 0; round < 2; ++round) {
    auto buffer = heap.Allocate(nullptr, 500, MemoryKind::kDevice).value();
    for (size_t i = 0; i < 500; ++i) ASSERT_EQ(buffer->host_data()[i], std::byte{0xA5});
    std::memset(buffer->host_data(), 0, 500);
  }
  EXPECT_EQ(heap.stats().pool_hits, 1u);
}

}  // namespace
}  // namespace uopd::devices
