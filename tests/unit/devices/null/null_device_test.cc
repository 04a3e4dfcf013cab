// SPDX-License-Identifier: MIT
#include "devices/null/null_device.h"

#include "gtest/gtest.h"

namespace uopd::devices::null {
namespace {

TEST(NullDeviceTest, CountsLaunchesAndLeavesBuffersAlone) {
  auto device = NullDevice::Open({});
  auto stream = device->NewStream().value();
  auto buffer = device->Allocate(4, MemoryKind::kHostVisible).value();
  auto kernel = device->Load({CodeFormat::kC, "k", "anything", {1, 0}}).value();
  const BufferArg args[] = {{buffer.get(), 0}};
  ASSERT_TRUE(stream->Fill(*buffer, 0, 4, std::byte{7}).ok());
  for (int i = 0; i < 3; ++i)
    ASSERT_TRUE(stream->Launch(*kernel, {{4, 4, 4}, {8, 8, 8}, 100}, args, {}).ok());
  EXPECT_FALSE(stream->Launch(*kernel, {}, {}, {}).ok());
  EXPECT_EQ(device->launches(), 3);
  EXPECT_EQ(buffer->host_data()[3], std::byte{7});
}

TEST(NullDeviceTest, IsLostAndComesBack) {
  auto device = NullDevice::Open({});
  auto stream = device->NewStream().value();
  auto buffer = device->Allocate(4, MemoryKind::kDevice).value();
  auto kernel = device->Load({CodeFormat::kC, "k", "anything", {}}).value();
  auto semaphore = device->NewSemaphore().value();
  device->SetStatus(absl::UnavailableError("lost"));
  EXPECT_EQ(device->status().code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(device->Allocate(4, MemoryKind::kDevice).status().code(),
            absl::StatusCode::kUnavailable);
  EXPECT_EQ(device->NewStream().status().code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(device->Load({CodeFormat::kC, "k", "x", {}}).status().code(),
            absl::StatusCode::kUnavailable);
  EXPECT_EQ(stream->Fill(*buffer, 0, 4, std::byte{1}).code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(stream->Launch(*kernel, {}, {}, {}).code(), absl::StatusCode::kUnavailable);
  EXPECT_TRUE(stream->Record(semaphore, 1).ok());  // waiters are let go
  EXPECT_EQ(semaphore->value(), 1u);
  device->SetStatus(absl::OkStatus());
  EXPECT_TRUE(stream->Launch(*kernel, {}, {}, {}).ok());
  EXPECT_EQ(device->launches(), 1);
}

}  // namespace
}  // namespace uopd::devices::null
