// SPDX-License-Identifier: MIT
// Counts the DATA frames in which the messages of a connection come, and the bytes of the messages
// that are not complete.
//
// gRPC keeps a message frame by frame until all of it is there, and keeps more about a frame than a
// small frame contains. A message of 16 MiB in frames of one byte would take a gigabyte. So a
// message may come in a number of pieces, and in more only if they are of some size.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>

#include "absl/container/flat_hash_map.h"

namespace uopd::net {

class MessagePieces {
 public:
  // A DATA frame begins. False: it is a piece too many. `last`: the stream's last frame.
  bool BeginFrame(uint32_t stream, bool last);
  // The next bytes of this frame, cut anywhere.
  void Receive(std::span<const uint8_t> bytes);
  void EndFrame();
  void EndStream(uint32_t stream);
  // Bytes of messages that are not complete.
  uint64_t unfinished() const { return others_ + current_.bytes; }

 private:
  // A message of gRPC: a byte, four bytes of length, and as many bytes.
  struct Message {
    uint32_t prefix = 0;  // bytes of the first five that are there
    uint32_t length = 0;  // of the rest
    uint64_t bytes = 0;   // there are of the rest
    uint64_t pieces = 0;
  };

  uint32_t stream_ = 0;
  bool last_ = false;
  Message current_;                               // empty between frames
  uint64_t others_ = 0;                           // bytes of the messages of other streams
  absl::flat_hash_map<uint32_t, Message> begun_;  // by stream: messages that are not complete
};

}  // namespace uopd::net
