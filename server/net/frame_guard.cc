// SPDX-License-Identifier: MIT
#include "server/net/frame_guard.h"

#include <algorithm>
#include <cstring>

namespace uopd::net {
namespace {

enum FrameType : uint8_t {
  kData = 0,
  kHeaders = 1,
  kReset = 3,
  kSettings = 4,
  kPing = 6,
  kGoAway = 7,
  kContinuation = 9,
};

constexpr uint8_t kEndStream = 1, kAck = 1, kPriority = 0x20;
constexpr uint32_t kPriorityBytes = 5;
constexpr size_t kPrefaceSize = 24;  // PRI * HTTP/2.0..., which the acceptor has compared
// A block of the default size fits into one frame of the default size. A few more pieces cost
// nothing.
constexpr uint64_t kMostBlockPieces = 4;
// What frames without content cost, in tokens. The library answers a PING, and copies and answers
// SETTINGS. The others cost it some tens of nanoseconds, and memory for their payload while it
// holds the bytes around it.
constexpr double kOther = 1, kAnswered = 10, kCopied = 1000, kPerByte = 1.0 / 16;
// A client has one or two PING on their way. The library keeps an error for each PING in a row,
// with all those before.
constexpr double kMostPings = 100;

}  // namespace

bool FrameGuard::Bucket::Take(double tokens, Clock::time_point now) {
  if (now > filled_) {
    const std::chrono::duration<double> since = now - filled_;
    tokens_ = std::min(burst_, tokens_ + rate_ * since.count());
    filled_ = now;
  }
  if (tokens_ < tokens) return false;
  tokens_ -= tokens;
  return true;
}

FrameGuard::FrameGuard(const FrameLimits& limits)
    : limits_(limits),
      resets_(limits.resets_per_s, limits.resets_burst),
      frames_(limits.frames_per_s, limits.frames_per_s),
      pings_(limits.frames_per_s / kAnswered, kMostPings),
      preface_left_(kPrefaceSize) {}

uint32_t FrameGuard::stream() const {
  return uint32_t{head_[5] & 0x7fU} << 24 | uint32_t{head_[6]} << 16 | uint32_t{head_[7]} << 8 |
         head_[8];
}

const char* FrameGuard::Receive(std::span<const uint8_t> bytes, Clock::time_point now) {
  if (refused_ != nullptr) return refused_;
  const size_t preface = std::min(preface_left_, bytes.size());
  preface_left_ -= preface;
  bytes = bytes.subspan(preface);
  while (!bytes.empty()) {
    if (head_size_ < head_.size()) {
      const size_t more = std::min(head_.size() - head_size_, bytes.size());
      std::memcpy(head_.data() + head_size_, bytes.data(), more);
      head_size_ += more;
      bytes = bytes.subspan(more);
      if (head_size_ < head_.size()) break;
      payload_left_ = length();
      refused_ = BeginFrame(now);
    }
    const size_t size = std::min<size_t>(payload_left_, bytes.size());
    if (refused_ == nullptr) refused_ = Payload(bytes.first(size));
    if (refused_ != nullptr) return refused_;
    payload_left_ -= static_cast<uint32_t>(size);
    bytes = bytes.subspan(size);
    if (payload_left_ == 0) EndFrame();
  }
  return nullptr;
}

const char* FrameGuard::BeginFrame(Clock::time_point now) {
  double tokens = kOther + kPerByte * length();
  switch (type()) {
    case kHeaders:
    case kContinuation:
      return BeginHeaders();
    case kData:
      if (!messages_.BeginFrame(stream(), (flags() & kEndStream) != 0)) return "message pieces";
      if (length() > 0 || (flags() & kEndStream) != 0) return nullptr;
      tokens = kAnswered;
      break;
    case kReset:
      messages_.EndStream(stream());
      return resets_.Take(1, now) ? nullptr : "resets";
    case kSettings:
      if ((flags() & kAck) != 0 && sent_) acknowledged_ = true;
      tokens += (flags() & kAck) != 0 ? kAnswered : kCopied;
      break;
    case kPing:
      if ((flags() & kAck) == 0 && !pings_.Take(1, now)) return "pings";
      tokens = kAnswered;
      break;
    case kGoAway:
      tokens += kCopied;
      break;
    default:
      break;
  }
  return frames_.Take(tokens, now) ? nullptr : "frames without content";
}

const char* FrameGuard::BeginHeaders() {
  priority_left_ = 0;
  if ((flags() & kEndStream) != 0) messages_.EndStream(stream());
  if (type() == kHeaders) {
    fields_.BeginBlock();
    block_bytes_ = block_pieces_ = 0;
    if ((flags() & kPriority) != 0) priority_left_ = kPriorityBytes;
    if (!acknowledged_ && ++streams_ > limits_.early_streams) {
      return "calls before the acknowledgment";
    }
  }
  block_bytes_ += length();
  if (block_bytes_ > limits_.header_bytes) return "header block";
  return ++block_pieces_ > kMostBlockPieces ? "header block pieces" : nullptr;
}

const char* FrameGuard::Payload(std::span<const uint8_t> bytes) {
  switch (type()) {
    case kData:
      messages_.Receive(bytes);
      return nullptr;
    case kHeaders:
    case kContinuation:
      return HeaderPayload(bytes);
    default:
      return nullptr;
  }
}

const char* FrameGuard::HeaderPayload(std::span<const uint8_t> bytes) {
  const size_t priority = std::min<size_t>(priority_left_, bytes.size());
  priority_left_ -= static_cast<uint32_t>(priority);
  fields_.Receive(bytes.subspan(priority));
  return fields_.fields() > limits_.header_fields ? "header fields" : nullptr;
}

void FrameGuard::EndFrame() {
  head_size_ = 0;
  if (type() == kData) messages_.EndFrame();
}

}  // namespace uopd::net
