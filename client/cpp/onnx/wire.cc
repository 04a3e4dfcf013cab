// SPDX-License-Identifier: MIT
#include "client/cpp/onnx/wire.h"

#include <algorithm>
#include <string>

#include "core/base/text.h"

namespace uopd::client::onnx {
namespace {

constexpr uint64_t kMostVarintBytes = 10;
constexpr uint64_t kMostFieldNumber = (1 << 29) - 1;

std::string_view NameOf(WireType type) {
  switch (type) {
    case WireType::kVarint:
      return "a number of variable length";
    case WireType::kFixed64:
      return "8 bytes";
    case WireType::kBytes:
      return "bytes with their length";
    case WireType::kFixed32:
      return "4 bytes";
  }
  return "another type";
}

}  // namespace

WireSource::WireSource(std::string_view bytes) : bytes_(bytes.size()), window_(bytes) {}

WireSource::WireSource(const RegularFile& file, Arena* kept, uint64_t window_bytes)
    : file_(&file), kept_(kept), bytes_(file.bytes()), window_bytes_(window_bytes) {}

absl::StatusOr<std::string_view> WireSource::Look(uint64_t at, uint64_t least) {
  if (at < window_at_ || at + least > window_at_ + window_.size()) {
    UOPD_CHECK(file_ != nullptr && least <= window_bytes_ && at + least <= bytes_);
    const uint64_t n = std::min(window_bytes_, bytes_ - at);
    window_ = {};  // also if reading fails
    buffer_.resize(n);
    UOPD_TRY(file_->ReadAt(at, buffer_));
    window_ = std::string_view(buffer_.data(), n);
    window_at_ = at;
  }
  return window_.substr(at - window_at_);
}

absl::StatusOr<std::string_view> WireSource::Keep(uint64_t begin, uint64_t end) {
  UOPD_CHECK(begin <= end && end <= bytes_);
  if (!copies()) return window_.substr(begin, end - begin);
  if (begin == end) return std::string_view();
  auto* const out = kept_->AllocateArray<char>(end - begin);
  UOPD_TRY(Copy(begin, {out, end - begin}));
  return std::string_view(out, end - begin);
}

absl::Status WireSource::Copy(uint64_t at, std::span<char> out) const {
  UOPD_CHECK(at <= bytes_ && out.size() <= bytes_ - at);
  if (out.empty()) return absl::OkStatus();
  if (at >= window_at_ && at + out.size() <= window_at_ + window_.size()) {
    std::memcpy(out.data(), window_.data() + (at - window_at_), out.size());
    return absl::OkStatus();
  }
  return file_->ReadAt(at, out);
}

absl::StatusOr<uint64_t> WireMessage::Varint() {
  const uint64_t most = std::min(end_ - at_, kMostVarintBytes);
  if (most > 0) {
    UOPD_ASSIGN(const std::string_view bytes, source_->Look(at_, most));
    uint64_t value = 0;
    for (uint64_t i = 0; i < most; ++i) {
      const auto byte = static_cast<unsigned char>(bytes[i]);
      // The tenth byte has room for one bit.
      if (i + 1 == kMostVarintBytes && byte > 1) break;
      value |= uint64_t{byte & 0x7fu} << (7 * i);
      if (byte < 0x80) {
        at_ += i + 1;
        return value;
      }
    }
  }
  if (most < kMostVarintBytes)
    return Invalid(
        Cat("the number at byte ", at_, " goes beyond its message, which ends at byte ", end_));
  return Invalid(Cat("the number at byte ", at_, " has more than 64 bits"));
}

absl::StatusOr<uint64_t> WireMessage::Fixed(uint64_t bytes) {
  if (end_ - at_ < bytes)
    return Invalid(
        Cat("the number at byte ", at_, " goes beyond its message, which ends at byte ", end_));
  UOPD_ASSIGN(const std::string_view found, source_->Look(at_, bytes));
  uint64_t value = 0;
  std::memcpy(&value, found.data(), bytes);  // little-endian, as every host of uopd
  at_ += bytes;
  return value;
}

absl::StatusOr<WireField> WireMessage::Next() {
  WireField out;
  out.at = at_;
  UOPD_ASSIGN(const uint64_t tag, Varint());
  const uint64_t number = tag >> 3, type = tag & 7;
  if (number == 0 || number > kMostFieldNumber)
    return Invalid(Cat("the field at byte ", out.at, " has the number ", number));
  if (type == 3 || type == 4)
    return Invalid(Cat("field ", number, " at byte ", out.at, " is a group, which ONNX has not"));
  if (type > 5)
    return Invalid(Cat("field ", number, " at byte ", out.at, " has the unknown wire type ", type));
  out.number = static_cast<uint32_t>(number);
  out.type = static_cast<WireType>(type);
  out.begin = at_;
  switch (out.type) {
    case WireType::kVarint: {
      UOPD_ASSIGN(out.value, Varint());
      break;
    }
    case WireType::kFixed64: {
      UOPD_ASSIGN(out.value, Fixed(8));
      break;
    }
    case WireType::kFixed32: {
      UOPD_ASSIGN(out.value, Fixed(4));
      break;
    }
    case WireType::kBytes: {
      UOPD_ASSIGN(const uint64_t bytes, Varint());
      if (bytes > end_ - at_) {
        return Invalid(Cat("field ", number, " at byte ", out.at, " has ", bytes,
                           " bytes and goes beyond its message, which ends at byte ", end_));
      }
      out.begin = at_;
      at_ += bytes;
      break;
    }
  }
  out.end = at_;
  return out;
}

absl::StatusOr<WireCounts> CountFields(WireMessage message) {
  WireCounts out{};
  while (message.more()) {
    UOPD_ASSIGN(const WireField field, message.Next());
    if (field.number < out.size()) ++out[field.number];
  }
  return out;
}

absl::Status NeedType(const WireField& field, WireType type) {
  if (field.type == type) return absl::OkStatus();
  return Invalid(Cat("field ", field.number, " at byte ", field.at, " is ", NameOf(field.type),
                     ", not ", NameOf(type)));
}

}  // namespace uopd::client::onnx
