// SPDX-License-Identifier: MIT
// RESP: what Redis and Valkey speak (redis.io/docs/reference/protocol-spec), versions 2 and 3.
//
// Debian's hiredis knows neither version 3 nor TLS, and reserves memory by numbers that the server
// sends. A shared server may be lying, so this reader bounds all that a reply can cost.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace uopd::cache {

enum class RespKind { kNull, kInteger, kText, kError, kArray, kPush };

// One reply. Booleans are integers; doubles, big numbers and verbatim strings are texts; maps and
// sets are arrays, maps with keys and values one after the other.
struct RespValue {
  RespKind kind = RespKind::kNull;
  int64_t integer = 0;
  std::string text;               // also the message of an error
  std::vector<RespValue> values;  // of arrays and pushes
};

struct RespLimits {
  size_t bytes = size_t{256} << 20;  // of one reply
  size_t values = size_t{1} << 16;   // of one reply, all levels together
  int depth = 8;
};

// A command as bytes.
std::string WriteCommand(std::span<const std::string_view> words);

// Takes replies from a stream of bytes. Not thread-safe.
class RespReader {
 public:
  explicit RespReader(const RespLimits& limits = {}) : limits_(limits) {}

  void Feed(std::string_view bytes) { buffer_ += bytes; }
  // Whether a whole reply was there; then it is in `value`. DATA_LOSS: the bytes are no reply, or
  // one beyond the limits. The stream cannot be used any more then.
  absl::StatusOr<bool> Next(RespValue& value);

 private:
  enum class Step { kDone, kNeedMore, kBad };
  Step Read(RespValue& value, int depth);
  Step ReadLine(std::string_view& line);
  Step ReadCount(std::string_view line, int64_t least, int64_t& count);
  Step ReadText(int64_t size, std::string& text);
  Step ReadValues(int64_t count, int depth, RespValue& value);

  const RespLimits limits_;
  std::string buffer_;
  size_t begin_ = 0;   // of what Next has not taken
  size_t at_ = 0;      // of what Read has not read
  size_t wanted_ = 0;  // Next need not look before the buffer has this size
  size_t values_ = 0;  // of the reply so far
};

}  // namespace uopd::cache
