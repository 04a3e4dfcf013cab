// SPDX-License-Identifier: MIT
// Judges what one HTTP/2 client sends, before the HTTP/2 library parses it.
//
// HTTP/2 has frames that cost the receiver memory or time and cost the sender almost nothing, and
// the library bounds too few of them. The guard reads the head of every frame, and of its payload
// what bounds need. It refuses:
//
//   a header block of more bytes or fields than allowed, or in more than a few pieces
//   more calls than a client may have, before it has acknowledged the server's settings: until
//     then the library does not enforce them
//   more calls that are taken back (RST_STREAM) than a bucket allows
//   more frames without content than a bucket allows: SETTINGS, PING, WINDOW_UPDATE, empty DATA...
//   a message in too many pieces
//
// Not thread-safe.
#pragma once
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>

#include "server/net/header_fields.h"
#include "server/net/message_pieces.h"

namespace uopd::net {

struct FrameLimits {
  uint64_t header_bytes = 16 << 10;               // of one header block, compressed
  uint64_t header_fields = 64;                    // of one header block
  uint64_t early_streams = 256;                   // calls before the settings are acknowledged
  double resets_per_s = 500, resets_burst = 256;  // calls taken back
  double frames_per_s = 100'000;                  // frames without content
};

class FrameGuard {
 public:
  using Clock = std::chrono::steady_clock;

  explicit FrameGuard(const FrameLimits& limits);

  // The client's next bytes, cut anywhere. Null: they may be parsed. Otherwise the reason why not,
  // and nothing of them or of what follows may be parsed.
  const char* Receive(std::span<const uint8_t> bytes, Clock::time_point now);
  // The server has sent something, which begins with its settings. An acknowledgment that comes
  // before is a lie.
  void OnSent() { sent_ = true; }
  // Bytes of messages that have begun and are not complete.
  uint64_t unfinished() const { return messages_.unfinished(); }

 private:
  // Holds at most `burst` tokens and gets `rate` more each second.
  class Bucket {
   public:
    Bucket(double rate, double burst) : rate_(rate), burst_(burst), tokens_(burst) {}
    bool Take(double tokens, Clock::time_point now);

   private:
    double rate_, burst_, tokens_;
    Clock::time_point filled_;
  };

  const char* BeginFrame(Clock::time_point now);
  const char* BeginHeaders();
  const char* Payload(std::span<const uint8_t> bytes);
  const char* HeaderPayload(std::span<const uint8_t> bytes);
  void EndFrame();

  uint32_t length() const { return uint32_t{head_[0]} << 16 | uint32_t{head_[1]} << 8 | head_[2]; }
  uint8_t type() const { return head_[3]; }
  uint8_t flags() const { return head_[4]; }
  uint32_t stream() const;

  const FrameLimits limits_;
  Bucket resets_, frames_, pings_;
  HeaderFields fields_;
  MessagePieces messages_;
  const char* refused_ = nullptr;
  bool sent_ = false, acknowledged_ = false;
  uint64_t streams_ = 0;                         // begun before the acknowledgment
  uint64_t block_bytes_ = 0, block_pieces_ = 0;  // of the current header block
  uint32_t priority_left_ = 0;                   // bytes before the block in a HEADERS frame

  // The parser: what is left of the preface, then of the frame's head, then of its payload.
  size_t preface_left_;
  std::array<uint8_t, 9> head_{};
  size_t head_size_ = 0;
  uint32_t payload_left_ = 0;
};

}  // namespace uopd::net
