// SPDX-License-Identifier: MIT
#include "server/net/message_pieces.h"

#include <algorithm>
#include <utility>

namespace uopd::net {
namespace {

constexpr uint32_t kPrefix = 5;
constexpr uint64_t kPieces = 64, kPieceBytes = 256;
// Streams that the server ended within a message stay, unless the client resets them, as clients
// do. The bytes of forgotten streams stay counted until the connection ends: a client could
// otherwise hide the messages that it has begun.
constexpr size_t kMostBegun = 1024;

}  // namespace

bool MessagePieces::BeginFrame(uint32_t stream, bool last) {
  stream_ = stream;
  last_ = last;
  const auto begun = begun_.find(stream);
  current_ = begun != begun_.end() ? begun->second : Message{};
  others_ -= current_.bytes;
  ++current_.pieces;
  return current_.pieces <= kPieces + current_.bytes / kPieceBytes;
}

void MessagePieces::Receive(std::span<const uint8_t> bytes) {
  while (!bytes.empty()) {
    size_t taken = 1;
    if (current_.prefix < kPrefix) {
      if (++current_.prefix > 1) current_.length = current_.length << 8 | bytes[0];
    } else {
      taken = std::min<uint64_t>(current_.length - current_.bytes, bytes.size());
      current_.bytes += taken;
    }
    bytes = bytes.subspan(taken);
    if (current_.prefix == kPrefix && current_.bytes == current_.length) current_ = {.pieces = 1};
  }
}

void MessagePieces::EndFrame() {
  const Message message = std::exchange(current_, {});
  if (last_ || message.prefix == 0) {
    if (!begun_.empty()) begun_.erase(stream_);
    return;
  }
  if (begun_.size() == kMostBegun && !begun_.contains(stream_)) {
    begun_.erase(std::min_element(begun_.begin(), begun_.end(),
                                  [](const auto& a, const auto& b) { return a.first < b.first; }));
  }
  begun_[stream_] = message;
  others_ += message.bytes;
}

void MessagePieces::EndStream(uint32_t stream) {
  const auto begun = begun_.find(stream);
  if (begun == begun_.end()) return;
  others_ -= begun->second.bytes;
  begun_.erase(begun);
}

}  // namespace uopd::net
