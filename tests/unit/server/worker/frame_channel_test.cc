// SPDX-License-Identifier: MIT
#include "server/worker/frame_channel.h"

#include <sys/socket.h>

#include <cstring>

#include "gtest/gtest.h"
#include "server/worker/fork/packet.h"

namespace uopd::worker {
namespace {

WorkLimits Soon() { return {WorkLimits::Clock::now() + std::chrono::seconds(20)}; }
WorkLimits Over() { return {WorkLimits::Clock::now()}; }

class FrameChannelTest : public testing::Test {
 protected:
  FrameChannelTest() {
    int ends[2];
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    ours_ = FrameChannel(UniqueFd(ends[0]));
    raw_ = ends[1];
    theirs_ = FrameChannel(UniqueFd(ends[1]));
  }
  // Bytes as a hostile peer would send them, perhaps with a descriptor.
  void SendRaw(uint32_t magic, uint32_t where, uint64_t size, std::string_view rest = {},
               int fd = -1) {
    std::string bytes(16, '\0');
    std::memcpy(bytes.data(), &magic, 4);
    std::memcpy(bytes.data() + 4, &where, 4);
    std::memcpy(bytes.data() + 8, &size, 8);
    bytes += rest;
    ASSERT_EQ(SendPacket(raw_, std::as_bytes(std::span(bytes)), fd, 0),
              static_cast<ssize_t>(bytes.size()));
  }

  static constexpr uint32_t kMagic = 0x57504f55;
  FrameChannel ours_, theirs_;
  int raw_;
};

TEST_F(FrameChannelTest, CarriesEverySize) {
  for (size_t size : {size_t{0}, size_t{1}, FrameChannel::kInlineBytes,
                      FrameChannel::kInlineBytes + 1, size_t{5} << 20}) {
    std::string payload(size, '\0');
    for (size_t i = 0; i < size; ++i) payload[i] = static_cast<char>(i * 31 >> 3);
    ASSERT_TRUE(theirs_.Send(payload, Soon()).ok());
    const auto got = ours_.Receive(Soon());
    ASSERT_TRUE(got.ok()) << got.status();
    EXPECT_TRUE(*got == payload) << size;
  }
}

TEST_F(FrameChannelTest, NoiseIsDataLoss) {
  SendRaw(0x3f3f3f3f, 0, 4, "????");
  EXPECT_TRUE(absl::IsDataLoss(ours_.Receive(Soon()).status()));
}

TEST_F(FrameChannelTest, SizesAreBounded) {
  SendRaw(kMagic, 0, uint64_t{1} << 60);
  EXPECT_TRUE(absl::IsDataLoss(ours_.Receive(Soon()).status()));
  ASSERT_TRUE(ours_.Send("0123456789", Soon()).ok());
  EXPECT_TRUE(absl::IsDataLoss(theirs_.Receive(Soon(), 9).status()));
}

TEST_F(FrameChannelTest, MemoryMustBeMemoryOfThatSize) {
  SendRaw(kMagic, 1, 100);
  EXPECT_TRUE(absl::IsDataLoss(ours_.Receive(Soon()).status())) << "no descriptor";
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  const UniqueFd in(ends[0]), out(ends[1]);
  SendRaw(kMagic, 1, 100, {}, in.get());
  EXPECT_TRUE(absl::IsDataLoss(ours_.Receive(Soon()).status())) << "a pipe";
  const UniqueFd file(fileno(tmpfile()));
  SendRaw(kMagic, 1, 100, {}, file.get());
  EXPECT_TRUE(absl::IsDataLoss(ours_.Receive(Soon()).status())) << "too short";
}

TEST_F(FrameChannelTest, EndOfStreamIsUnavailable) {
  SendRaw(kMagic, 0, 8, "cut");
  theirs_ = FrameChannel();
  EXPECT_TRUE(absl::IsUnavailable(ours_.Receive(Soon()).status()));
  EXPECT_TRUE(absl::IsUnavailable(ours_.Send("x", Soon())));
}

TEST_F(FrameChannelTest, WaitsEnd) {
  EXPECT_TRUE(absl::IsDeadlineExceeded(ours_.Receive(Over()).status()));
  int asked = 0;
  EXPECT_TRUE(
      absl::IsCancelled(ours_.Receive({.cancelled = [&] { return ++asked == 3; }}).status()));
  EXPECT_EQ(asked, 3);
}

}  // namespace
}  // namespace uopd::worker
