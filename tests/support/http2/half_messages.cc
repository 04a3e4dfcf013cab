// SPDX-License-Identifier: MIT
#include "tests/support/http2/half_messages.h"

#include <sys/socket.h>

#include <algorithm>
#include <cerrno>

#include "tests/support/http2/frames.h"
#include "tests/support/ipv4.h"

namespace uopd::test::http2 {
namespace {

constexpr size_t kHead = 9;                    // bytes of a frame before its payload
constexpr size_t kFrame = 16 << 10;            // of one DATA frame
constexpr size_t kWaiting = 256 << 10;         // that are made ready to be sent
constexpr uint32_t kPrefix = 5, kNever = 100;  // of a message
constexpr uint16_t kInitialWindow = 4;         // of SETTINGS

uint32_t NumberAt(const std::string& bytes, size_t at, size_t size) {
  uint32_t out = 0;
  for (size_t i = 0; i < size; ++i) out = out << 8 | static_cast<uint8_t>(bytes[at + i]);
  return out;
}

}  // namespace

HalfMessages::HalfMessages(const std::string& host_port, const std::string& from, int calls,
                           uint32_t message_bytes)
    : fd_(ConnectFrom(from, host_port)),
      calls_(calls),
      message_bytes_(message_bytes),
      waiting_(Greeting()) {}

void HalfMessages::Go() {
  if (!open() || !Read()) return fd_.Reset();
  Send();
  const ssize_t n = send(fd_.get(), waiting_.data(), waiting_.size(), MSG_NOSIGNAL);
  if (n > 0) waiting_.erase(0, static_cast<size_t>(n));
  if (n < 0 && errno != EAGAIN) fd_.Reset();
}

bool HalfMessages::Read() {
  char bytes[16 << 10];
  ssize_t n = 0;
  while ((n = recv(fd_.get(), bytes, sizeof bytes, 0)) > 0)
    heard_.append(bytes, static_cast<size_t>(n));
  if (n == 0 || errno != EAGAIN) return false;
  size_t at = 0;
  while (heard_.size() - at >= kHead) {
    const uint32_t size = NumberAt(heard_, at, 3);
    if (heard_.size() - at < kHead + size) break;
    Hear(static_cast<uint8_t>(heard_[at + 3]), static_cast<uint8_t>(heard_[at + 4]),
         NumberAt(heard_, at + 5, 4), heard_.substr(at + kHead, size));
    at += kHead + size;
  }
  heard_.erase(0, at);
  return true;
}

void HalfMessages::Hear(uint8_t type, uint8_t flags, uint32_t stream, const std::string& payload) {
  switch (static_cast<Type>(type)) {
    case Type::kSettings:
      if ((flags & kAck) != 0) return;
      for (size_t at = 0; at + 6 <= payload.size(); at += 6) {
        if (NumberAt(payload, at, 2) != kInitialWindow) continue;
        const int64_t window = NumberAt(payload, at + 2, 4);
        for (auto& [id, one] : streams_) one.window += window - first_window_;
        first_window_ = window;
      }
      waiting_ += Acknowledgment();
      if (streams_.empty()) Begin();
      return;
    case Type::kWindowUpdate: {
      const int64_t more = NumberAt(payload, 0, 4);
      if (stream == 0) window_ += more;
      if (const auto one = streams_.find(stream); one != streams_.end()) one->second.window += more;
      return;
    }
    case Type::kPing:
      if ((flags & kAck) == 0) waiting_ += Frame(Type::kPing, kAck, 0, payload);
      return;
    case Type::kReset:
      if (const auto one = streams_.find(stream); one != streams_.end()) one->second.left = 0;
      return;
    default:
      return;
  }
}

void HalfMessages::Begin() {
  for (int i = 0; i < calls_; ++i) {
    const auto id = static_cast<uint32_t>(2 * i + 1);
    streams_[id] = {first_window_, kPrefix + message_bytes_ - kNever, false};
    waiting_ += Frame(Type::kHeaders, kEndHeaders, id, CallFields("/uopd.v1.UopdService/Upload"));
  }
}

void HalfMessages::Send() {
  for (auto& [id, one] : streams_) {
    if (waiting_.size() >= kWaiting) return;
    const auto size = std::min({one.window, window_, int64_t{one.left}, int64_t{kFrame}});
    if (size < std::min<int64_t>(one.left, 1'000)) continue;  // small pieces are another flood
    if (size == 0) continue;
    std::string payload(static_cast<size_t>(size), 'x');
    if (!one.begun) payload.replace(0, kPrefix, std::string(1, '\0') + Number(message_bytes_));
    one.begun = true;
    one.window -= size;
    one.left -= static_cast<uint32_t>(size);
    window_ -= size;
    sent_ += static_cast<uint64_t>(size);
    waiting_ += Frame(Type::kData, 0, id, payload);
  }
}

}  // namespace uopd::test::http2
