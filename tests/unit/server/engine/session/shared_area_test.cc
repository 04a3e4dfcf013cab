// SPDX-License-Identifier: MIT
#include "server/engine/session/shared_area.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <string>

namespace uopd::engine {
namespace {

std::span<const std::byte> Bytes(const std::string& text) { return std::as_bytes(std::span(text)); }

TEST(SharedAreaTest, BothSidesSeeTheSameBytes) {
  auto quota = std::make_shared<Quota>("limit", 1 << 30);
  const auto area = SharedArea::Create(3, quota);
  ASSERT_TRUE(area.ok()) << area.status();
  EXPECT_EQ((*area)->number(), 3U);
  const int file = (*area)->descriptor();
  ASSERT_TRUE((*area)->Write(100, Bytes("from the daemon")).ok());
  std::string got(15, '\0');
  ASSERT_EQ(pread(file, got.data(), got.size(), 100), 15);
  EXPECT_EQ(got, "from the daemon");
  const auto end = static_cast<off_t>(SharedArea::kBytes - 6);
  ASSERT_EQ(pwrite(file, "client", 6, end), 6);
  std::string read(6, '\0');
  ASSERT_TRUE((*area)->Read(SharedArea::kBytes - 6, std::as_writable_bytes(std::span(read))).ok());
  EXPECT_EQ(read, "client");
}

TEST(SharedAreaTest, NobodyChangesItsSize) {
  const auto area = SharedArea::Create(1, std::make_shared<Quota>("limit", 1 << 30));
  ASSERT_TRUE(area.ok());
  const int file = (*area)->descriptor();
  for (const off_t size : {0L, 4096L, static_cast<off_t>(SharedArea::kBytes * 2)}) {
    EXPECT_EQ(ftruncate(file, size), -1);
    EXPECT_EQ(errno, EPERM);
  }
  EXPECT_EQ(fcntl(file, F_ADD_SEALS, F_SEAL_FUTURE_WRITE), -1);
}

TEST(SharedAreaTest, RangesEndInIt) {
  const auto area = SharedArea::Create(1, std::make_shared<Quota>("limit", 1 << 30));
  ASSERT_TRUE(area.ok());
  EXPECT_TRUE((*area)->CheckRange(0, SharedArea::kBytes).ok());
  EXPECT_TRUE((*area)->CheckRange(SharedArea::kBytes, 0).ok());
  EXPECT_TRUE(absl::IsInvalidArgument((*area)->CheckRange(1, SharedArea::kBytes)));
  EXPECT_TRUE(absl::IsInvalidArgument((*area)->CheckRange(SharedArea::kBytes + 1, 0)));
  EXPECT_TRUE(absl::IsInvalidArgument((*area)->CheckRange(UINT64_MAX, 2)));
  EXPECT_TRUE(absl::IsInvalidArgument((*area)->CheckRange(2, UINT64_MAX)));
}

TEST(SharedAreaTest, IsChargedAndGivesItsMemoryBackWhoeverHasItsDescriptor) {
  auto quota = std::make_shared<Quota>("limit", static_cast<int64_t>(SharedArea::kBytes) + 1);
  auto area = SharedArea::Create(1, quota);
  ASSERT_TRUE(area.ok());
  EXPECT_EQ(quota->used(), static_cast<int64_t>(SharedArea::kBytes));
  EXPECT_TRUE(absl::IsResourceExhausted(SharedArea::Create(2, quota).status()));
  ASSERT_TRUE((*area)->Write(0, Bytes(std::string(1 << 20, 'x'))).ok());
  const UniqueFd clients(dup((*area)->descriptor()));
  struct stat status{};
  ASSERT_EQ(fstat(clients.get(), &status), 0);
  EXPECT_GE(status.st_blocks * 512, 1 << 20);
  area->reset();
  EXPECT_EQ(quota->used(), 0);
  ASSERT_EQ(fstat(clients.get(), &status), 0);
  EXPECT_EQ(status.st_blocks, 0);
}

}  // namespace
}  // namespace uopd::engine
