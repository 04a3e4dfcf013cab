// SPDX-License-Identifier: MIT
// A daemon that ends while the last bytes of an answer wait in its system for a slow client. If the
// daemon closes the connection now and the client then sends something, those bytes are lost. The
// client is a socket with a small buffer, because a client of gRPC reads ahead.
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <optional>
#include <string>
#include <thread>

#include "core/base/unique_fd.h"
#include "tests/e2e/client.h"
#include "tests/support/http2/frames.h"
#include "tests/support/ipv4.h"

namespace uopd::e2e {
namespace {

using test::http2::Frame;
using test::http2::Number;
using test::http2::Type;

class SlowReader {
 public:
  explicit SlowReader(const std::string& host_port) {
    fd_ = UniqueFd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    const int room = 32 << 10;
    setsockopt(fd_.get(), SOL_SOCKET, SO_RCVBUF, &room, sizeof room);
    const sockaddr_in to = test::Ipv4(host_port);
    EXPECT_EQ(connect(fd_.get(), reinterpret_cast<const sockaddr*>(&to), sizeof to), 0);
  }

  // Asks for all of a buffer, and allows all of it to be sent at once.
  void Ask(const std::string& session, uint64_t handle) {
    constexpr uint32_t kWindow = 1 << 30;
    v1::DownloadRequest request;
    request.set_session_id(session);
    request.set_handle(handle);
    const std::string body = request.SerializeAsString();
    Send(test::http2::Greeting() +
         Frame(Type::kSettings, 0, 0, std::string("\0\4", 2) + Number(kWindow)) +
         Frame(Type::kWindowUpdate, 0, 0, Number(kWindow)) +
         Frame(Type::kHeaders, test::http2::kEndHeaders, 1,
               test::http2::CallFields("/uopd.v1.UopdService/Download")) +
         Frame(Type::kData, test::http2::kEndStream, 1,
               std::string(1, '\0') + Number(static_cast<uint32_t>(body.size())) + body));
  }

  void Send(const std::string& bytes) {
    send(fd_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);  // a failure is seen by the reads
  }

  // Reads a frame of the call. Nothing: the connection has ended.
  struct Received {
    Type type;
    uint8_t flags;
    size_t bytes;
  };
  std::optional<Received> Read() {
    for (;;) {
      if (!Await(9)) return std::nullopt;
      const auto byte = [&](size_t i) { return static_cast<uint8_t>(heard_[i]); };
      const size_t size = size_t{byte(0)} << 16 | size_t{byte(1)} << 8 | byte(2);
      const Received out{static_cast<Type>(byte(3)), byte(4), size};
      const uint8_t stream = byte(8);
      if (!Await(9 + size)) return std::nullopt;
      heard_.erase(0, 9 + size);
      if (stream == 1) return out;
    }
  }

 private:
  bool Await(size_t bytes) {
    std::string buffer(64 << 10, '\0');
    while (heard_.size() < bytes) {
      const ssize_t n = read(fd_.get(), buffer.data(), buffer.size());
      if (n <= 0) return false;
      heard_.append(buffer, 0, static_cast<size_t>(n));
    }
    return true;
  }

  UniqueFd fd_;
  std::string heard_;
};

TEST(DrainTest, WhatWaitsForASlowLinkIsNotLost) {
  TemporaryFolder folder;
  DaemonProcess daemon(folder.path());
  Client client(daemon);
  ASSERT_TRUE(client.OpenSession().ok());
  const std::string data(1 << 20, 'a');
  ASSERT_TRUE(client.Upload(1, data).ok());
  SlowReader reader(daemon.listen());
  reader.Ask(client.session(), 1);
  size_t came = 0;
  bool complete = false;
  for (int i = 0; !complete; ++i) {
    const auto frame = reader.Read();
    ASSERT_TRUE(frame) << came << " bytes had come";
    if (frame->type == Type::kData) came += frame->bytes;
    complete = (frame->flags & test::http2::kEndStream) != 0;
    if (i == 0) continue;  // the header fields
    if (i == 1) daemon.Signal(SIGTERM);
    // 16 KiB in 30 ms: seconds for what the daemon's system holds.
    std::this_thread::sleep_for(std::chrono::milliseconds(30));
    reader.Send(Frame(Type::kWindowUpdate, 0, 0, Number(1)));
  }
  EXPECT_GE(came, data.size());
  EXPECT_EQ(daemon.Wait(), 0);
}

}  // namespace
}  // namespace uopd::e2e
