// SPDX-License-Identifier: MIT
// The wire format of protobuf: messages, which are fields one after the other
// (https://protobuf.dev/programming-guides/encoding). Internal to the library.
//
// Errors are INVALID_ARGUMENT and name the byte of the file; those of reading a file are its own.
#pragma once
#include <array>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "client/cpp/state/regular_file.h"
#include "core/base/arena.h"
#include "core/base/status.h"

namespace uopd::client::onnx {

// The bytes that are parsed: of memory, or of a file, of which a window is in memory. One thread
// uses it.
class WireSource {
 public:
  static constexpr uint64_t kWindowBytes = 64 << 10;

  explicit WireSource(std::string_view bytes);
  // `file` must outlive this object. Strings that Keep gives are in `kept`, which may be nullptr if
  // Keep is not called.
  WireSource(const RegularFile& file, Arena* kept, uint64_t window_bytes = kWindowBytes);

  uint64_t bytes() const { return bytes_; }
  // The bytes from `at` on, `least` or more of them, valid until the next call. REQUIRES: the
  // source has that many there, and a window has.
  absl::StatusOr<std::string_view> Look(uint64_t at, uint64_t least);
  // Bytes that stay valid as long as those of the source, or as long as the arena. REQUIRES: the
  // source has them.
  absl::StatusOr<std::string_view> Keep(uint64_t begin, uint64_t end);
  // Copies bytes. REQUIRES: the source has them.
  absl::Status Copy(uint64_t at, std::span<char> out) const;
  // Whether Keep takes memory.
  bool copies() const { return file_ != nullptr; }

 private:
  const RegularFile* file_ = nullptr;
  Arena* kept_ = nullptr;
  uint64_t bytes_ = 0;
  uint64_t window_bytes_ = kWindowBytes;
  std::string_view window_;
  uint64_t window_at_ = 0;
  std::vector<char> buffer_;
};

enum class WireType : uint8_t { kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5 };

struct WireField {
  uint32_t number = 0;
  WireType type = WireType::kVarint;
  uint64_t at = 0;              // byte of its tag
  uint64_t begin = 0, end = 0;  // of kBytes: the bytes; of the others: what follows the tag
  uint64_t value = 0;           // of the others
};

// Reads the fields of a message, which lies in [begin, end) of the source, one by one.
class WireMessage {
 public:
  // REQUIRES: begin <= end <= source.bytes()
  WireMessage(WireSource& source, uint64_t begin, uint64_t end)
      : source_(&source), at_(begin), end_(end) {}

  bool more() const { return at_ < end_; }
  uint64_t at() const { return at_; }
  uint64_t end() const { return end_; }
  WireSource& source() const { return *source_; }
  // The next field. The contents of kBytes are not read. REQUIRES: more().
  absl::StatusOr<WireField> Next();
  // A number of variable length. INVALID_ARGUMENT if the message ends within it.
  absl::StatusOr<uint64_t> Varint();
  // A number of eight or four bytes, little-endian.
  absl::StatusOr<uint64_t> Fixed(uint64_t bytes);

 private:
  WireSource* source_;
  uint64_t at_, end_;
};

// How often each field of a message is there, by its number; of larger numbers nothing is known.
using WireCounts = std::array<uint64_t, 32>;
// `message` is a copy: the caller's stays where it is.
absl::StatusOr<WireCounts> CountFields(WireMessage message);

// INVALID_ARGUMENT unless the field has this type.
absl::Status NeedType(const WireField& field, WireType type);

}  // namespace uopd::client::onnx
