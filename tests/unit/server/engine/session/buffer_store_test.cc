// SPDX-License-Identifier: MIT
#include "server/engine/session/buffer_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/base/text.h"
#include "devices/null/null_device.h"
#include "tests/unit/server/engine/fixture.h"

namespace uopd::engine {
namespace {

using ::testing::HasSubstr;

class BufferStoreTest : public ::testing::Test {
 protected:
  absl::Status Create(uint64_t handle, uint64_t bytes) {
    return buffers_.Create(handle, **devices_.Get(""), bytes);
  }
  absl::Status Write(uint64_t handle, uint64_t offset, std::string_view data) {
    return buffers_.Write(devices_, handle, offset, data);
  }
  // The contents, or the error as text.
  std::string Read(uint64_t handle, uint64_t offset, size_t bytes) {
    std::string out(bytes, '?');
    const absl::Status status = buffers_.Read(devices_, handle, offset, out);
    return status.ok() ? out : status.ToString();
  }

  DeviceSet devices_{NullRegistry()};
  Quota quota_{"limits.session_bytes", 10 * ChargedBytes(16)};
  BufferStore buffers_{quota_, 3};
};

TEST_F(BufferStoreTest, BuffersAreZeroAndHoldWhatIsWritten) {
  ASSERT_TRUE(Create(7, 8).ok());
  EXPECT_EQ(Read(7, 0, 8), std::string(8, '\0'));
  ASSERT_TRUE(Write(7, 2, "abc").ok());
  EXPECT_EQ(Read(7, 1, 5), std::string("\0abc\0", 5));
  EXPECT_EQ(Read(7, 8, 0), "");
}

TEST_F(BufferStoreTest, HandlesAreTheClientsButNotTwice) {
  EXPECT_TRUE(absl::IsInvalidArgument(Create(0, 8)));
  ASSERT_TRUE(Create(7, 8).ok());
  EXPECT_TRUE(absl::IsInvalidArgument(Create(7, 8)));
  ASSERT_TRUE(Create(8, 8).ok());
  ASSERT_TRUE(Create(9, 0).ok());
  EXPECT_THAT(Create(10, 8).ToString(), HasSubstr("limits.session_buffers is 3"));
  const uint64_t both[] = {7, 7};
  buffers_.Free(both);
  EXPECT_EQ(buffers_.size(), 2u);
  EXPECT_EQ(buffers_.Find(7), nullptr);
  EXPECT_THAT(Read(7, 0, 1), HasSubstr("buffer 7 is unknown"));
}

TEST_F(BufferStoreTest, BytesAreChargedAndGivenBack) {
  ASSERT_TRUE(Create(1, 1).ok());
  EXPECT_EQ(quota_.used(), ChargedBytes(1));
  EXPECT_TRUE(absl::IsResourceExhausted(Create(2, 1 << 20)));
  EXPECT_EQ(quota_.used(), ChargedBytes(1));
  buffers_.Clear();
  EXPECT_EQ(quota_.used(), 0);
}

TEST_F(BufferStoreTest, BytesOutsideOfABufferAreRefused) {
  ASSERT_TRUE(Create(7, 8).ok());
  EXPECT_TRUE(absl::IsInvalidArgument(Write(7, 7, "ab")));
  EXPECT_TRUE(absl::IsInvalidArgument(Write(7, UINT64_MAX, "ab")));
  EXPECT_THAT(Read(7, 9, 0), HasSubstr("INVALID_ARGUMENT"));
  EXPECT_EQ(Read(7, 0, 8), std::string(8, '\0'));
}

TEST_F(BufferStoreTest, LostContentsComeBackWhenAllIsOverwritten) {
  ASSERT_TRUE(Create(7, 4).ok());
  const uint64_t one[] = {7};
  buffers_.Lose(one, "its client left");
  EXPECT_THAT(Read(7, 0, 4), HasSubstr("its client left"));
  ASSERT_TRUE(Write(7, 2, "cd").ok());  // not from the first byte on
  EXPECT_TRUE(absl::IsDataLoss(buffers_.CheckContents(7)));
  ASSERT_TRUE(Write(7, 0, "ab").ok());
  EXPECT_TRUE(absl::IsDataLoss(buffers_.CheckContents(7)));
  ASSERT_TRUE(Write(7, 2, "cd").ok());
  EXPECT_EQ(Read(7, 0, 4), "abcd");
  buffers_.Lose(one, "again");
  buffers_.Changed(one, one);  // a run wrote all of it
  EXPECT_TRUE(buffers_.CheckContents(7).ok());
}

TEST_F(BufferStoreTest, BuffersGoWithTheirDevice) {
  ASSERT_TRUE(Create(7, 8).ok());
  ASSERT_TRUE(Create(5, 8).ok());
  ASSERT_TRUE(buffers_.Create(6, **devices_.Get("NULL:1"), 8).ok());
  EXPECT_FALSE(buffers_.NoteLosses());
  EXPECT_TRUE(buffers_.TakeLoss().ok());
  auto& device = dynamic_cast<devices::null::NullDevice&>((*devices_.Get(""))->device());
  device.SetStatus(absl::UnavailableError("fell off the bus"));
  EXPECT_TRUE(buffers_.NoteLosses());
  EXPECT_FALSE(buffers_.NoteLosses());
  EXPECT_EQ(quota_.used(), ChargedBytes(8));
  EXPECT_EQ(buffers_.TakeLoss(),
            absl::DataLossError("lost with device NULL:0 (fell off the bus): buffer 5, 7; free the "
                                "handles and make the buffers again"));
  EXPECT_TRUE(buffers_.TakeLoss().ok());
  EXPECT_EQ(Read(6, 0, 8), std::string(8, '\0'));
  EXPECT_THAT(Read(7, 0, 8), HasSubstr("DATA_LOSS: buffer 7 was lost with device NULL:0"));
  EXPECT_TRUE(absl::IsDataLoss(Write(5, 0, "a")));
  device.SetStatus(absl::OkStatus());
  EXPECT_TRUE(absl::IsDataLoss(Create(7, 8)));
  EXPECT_TRUE(absl::IsResourceExhausted(Create(8, 8)));  // the handles still count
  const uint64_t lost[] = {5, 7};
  buffers_.Free(lost);
  EXPECT_THAT(Read(5, 0, 1), HasSubstr("buffer 5 is unknown"));
  EXPECT_TRUE(Create(7, 8).ok());
  EXPECT_EQ(Read(7, 0, 8), std::string(8, '\0'));
}

TEST_F(BufferStoreTest, MessagesNameEightHandles) {
  const std::vector<uint64_t> handles = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10};
  EXPECT_EQ(NameHandles({}), "");
  EXPECT_EQ(NameHandles(std::span(handles).first(8)), "1, 2, 3, 4, 5, 6, 7, 8");
  EXPECT_EQ(NameHandles(handles), "1, 2, 3, 4, 5, 6, 7, 8 and 2 more");
}

TEST_F(BufferStoreTest, AnUploadClearsWhatItDoesNotWrite) {
  ASSERT_TRUE(buffers_.CreateForUpload(7, **devices_.Get(""), 8).ok());
  EXPECT_TRUE(absl::IsInvalidArgument(buffers_.CreateForUpload(7, **devices_.Get(""), 8)));
  ASSERT_TRUE(Write(7, 0, "ab").ok());
  ASSERT_TRUE(Write(7, 1, "cd").ok());
  EXPECT_EQ(Read(7, 0, 8), std::string("acd\0\0\0\0\0", 8));
  ASSERT_TRUE(Write(7, 6, "x").ok());
  EXPECT_EQ(Read(7, 0, 8), std::string("acd\0\0\0x\0", 8));
}

TEST_F(BufferStoreTest, KnowsWhatTakesLong) {
  constexpr uint64_t kLarge = 3 << 20;
  Quota quota("quota", 1 << 30);
  BufferStore buffers(quota);
  DeviceState& device = **devices_.Get("");
  const std::string data(1 << 20, 'x');
  EXPECT_TRUE(buffers.OnlyCopies(1, 0, 1 << 20));
  EXPECT_FALSE(buffers.OnlyCopies(1, 0, kLarge));
  ASSERT_TRUE(buffers.CreateForUpload(1, device, kLarge).ok());
  EXPECT_TRUE(buffers.HasUnfilled());
  EXPECT_TRUE(buffers.OnlyCopies(1, 0, kLarge));
  EXPECT_FALSE(buffers.OnlyCopies(1, 1, kLarge));
  ASSERT_TRUE(buffers.Write(devices_, 1, 0, data).ok());
  EXPECT_TRUE(buffers.OnlyCopies(1, 1 << 20, kLarge));
  EXPECT_FALSE(buffers.OnlyCopies(1, 2 << 20, kLarge));
  ASSERT_TRUE(buffers.Write(devices_, 1, 1 << 20, data).ok());
  EXPECT_TRUE(buffers.HasUnfilled());
  EXPECT_NE(buffers.Peek(1), nullptr);
  EXPECT_TRUE(buffers.HasUnfilled());
  ASSERT_TRUE(buffers.Write(devices_, 1, 2 << 20, data).ok());
  EXPECT_FALSE(buffers.HasUnfilled());
  // Each of these ends the state: a look at the contents, a write that leaves a gap, the end.
  for (uint64_t handle : {2, 3, 4}) {
    ASSERT_TRUE(buffers.CreateForUpload(handle, device, kLarge).ok());
    EXPECT_TRUE(buffers.HasUnfilled());
    if (handle == 2) {
      EXPECT_NE(buffers.Find(2), nullptr);
    } else if (handle == 3) {
      ASSERT_TRUE(buffers.Write(devices_, 3, 5, "x").ok());
    } else {
      buffers.Free(std::span(&handle, 1));
    }
    EXPECT_FALSE(buffers.HasUnfilled()) << handle;
  }
  // Small ones are cleared in no time.
  ASSERT_TRUE(buffers.CreateForUpload(5, device, 100).ok());
  EXPECT_FALSE(buffers.HasUnfilled());
  EXPECT_TRUE(buffers.OnlyCopies(5, 50, 100));
}

TEST_F(BufferStoreTest, ACopyFromElsewhereIsAWriteLikeAnother) {
  const auto fill = [](char c) {
    return [c](std::span<std::byte> into) {
      std::fill(into.begin(), into.end(), static_cast<std::byte>(c));
      return absl::OkStatus();
    };
  };
  ASSERT_TRUE(Create(7, 8).ok());
  const uint64_t version = buffers_.Version(7);
  ASSERT_TRUE(buffers_.WriteBy(devices_, 7, 2, 3, fill('x')).ok());
  EXPECT_GT(buffers_.Version(7), version);
  EXPECT_EQ(Read(7, 0, 8), std::string("\0\0xxx\0\0\0", 8));
  std::string got;
  const auto take = [&](std::span<const std::byte> from) {
    got.assign(reinterpret_cast<const char*>(from.data()), from.size());
    return absl::OkStatus();
  };
  ASSERT_TRUE(buffers_.ReadBy(devices_, 7, 1, 3, take).ok());
  EXPECT_EQ(got, std::string("\0xx", 3));
  EXPECT_TRUE(absl::IsInvalidArgument(buffers_.WriteBy(devices_, 7, 7, 2, fill('y'))));
  EXPECT_TRUE(absl::IsInvalidArgument(buffers_.ReadBy(devices_, 7, 7, 2, take)));
  EXPECT_TRUE(absl::IsNotFound(buffers_.WriteBy(devices_, 8, 0, 1, fill('y'))));
  EXPECT_TRUE(absl::IsNotFound(buffers_.ReadBy(devices_, 8, 0, 1, take)));
  const auto fails = [](std::span<std::byte>) { return absl::InternalError("it ends early"); };
  EXPECT_TRUE(absl::IsInternal(buffers_.WriteBy(devices_, 7, 0, 8, fails)));
  EXPECT_TRUE(absl::IsDataLoss(buffers_.ReadBy(devices_, 7, 0, 8, take)));
  ASSERT_TRUE(buffers_.WriteBy(devices_, 7, 0, 8, fill('z')).ok());
  EXPECT_EQ(Read(7, 0, 8), "zzzzzzzz");
}

TEST_F(BufferStoreTest, EveryChangeIsANewVersion) {
  ASSERT_TRUE(Create(7, 4).ok());
  std::vector<uint64_t> versions = {0, buffers_.Version(7)};
  ASSERT_TRUE(Write(7, 0, "a").ok());
  versions.push_back(buffers_.Version(7));
  const uint64_t one[] = {7};
  buffers_.Changed(one, {});
  versions.push_back(buffers_.Version(7));
  buffers_.Free(one);
  EXPECT_EQ(buffers_.Version(7), 0u);
  ASSERT_TRUE(Create(7, 4).ok());  // the same handle, other contents
  versions.push_back(buffers_.Version(7));
  for (size_t i = 1; i < versions.size(); ++i) EXPECT_GT(versions[i], versions[i - 1]) << i;
}

TEST_F(BufferStoreTest, AConstantIsReadAndFreedAndNotWritten) {
  ASSERT_TRUE(Create(7, 8).ok());
  ASSERT_TRUE(Write(7, 0, "contents").ok());
  EXPECT_EQ(buffers_.ConstantOf(7), std::nullopt);
  const uint64_t version = buffers_.Version(7);
  ASSERT_TRUE(buffers_.MakeConstant(7, {}, {.sha256 = HashBytes("contents")}).ok());
  EXPECT_EQ(buffers_.ConstantOf(7), HashBytes("contents"));
  EXPECT_EQ(buffers_.Version(7), version);
  const absl::Status refused = Write(7, 0, "c");
  EXPECT_TRUE(absl::IsInvalidArgument(refused));
  EXPECT_THAT(StatusText(refused), HasSubstr("buffer 7 is a constant"));
  EXPECT_TRUE(absl::IsInvalidArgument(
      buffers_.WriteBy(devices_, 7, 0, 1, [](std::span<std::byte>) { return absl::OkStatus(); })));
  EXPECT_EQ(Read(7, 0, 8), "contents");
  EXPECT_TRUE(absl::IsNotFound(buffers_.MakeConstant(8, {}, {})));
  const uint64_t handle = 7;
  buffers_.Free({&handle, 1});
  EXPECT_EQ(buffers_.ConstantOf(7), std::nullopt);
  EXPECT_EQ(quota_.used(), 0);
  ASSERT_TRUE(Create(7, 8).ok());
  EXPECT_TRUE(Write(7, 0, "c").ok());
}

TEST_F(BufferStoreTest, SharedMemoryTakesThePlaceOfTheSessionsOwn) {
  DeviceState& device = **devices_.Get("");
  auto shared = Allocate(device, 8, quota_);
  ASSERT_TRUE(shared.ok());
  const double before = device.buffer_bytes().value();
  ASSERT_TRUE(Create(7, 8).ok());
  EXPECT_EQ(device.buffer_bytes().value(), before + 8);
  const std::shared_ptr<devices::Buffer> memory = shared->buffer;
  const auto use = std::make_shared<const int>(0);
  ASSERT_TRUE(buffers_.MakeConstant(7, *std::move(shared), {.maybe_shared = use}).ok());
  EXPECT_EQ(buffers_.Find(7), memory);
  EXPECT_EQ(device.buffer_bytes().value(), before);  // somebody else counts it
  EXPECT_EQ(use.use_count(), 2);
  buffers_.Clear();
  EXPECT_EQ(use.use_count(), 1);
  EXPECT_EQ(device.buffer_bytes().value(), before);
}

}  // namespace
}  // namespace uopd::engine
