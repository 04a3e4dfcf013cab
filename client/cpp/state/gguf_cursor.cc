// SPDX-License-Identifier: MIT
#include "client/cpp/state/gguf_cursor.h"

#include <algorithm>

#include "core/base/text.h"

namespace uopd::client {
namespace {

constexpr int kGgufTypeCount = 13;

// The bytes of a value; of strings and arrays, the least that one takes.
uint64_t LeastBytes(GgufType type) {
  switch (type) {
    case GgufType::kUint8:
    case GgufType::kInt8:
    case GgufType::kBool:
      return 1;
    case GgufType::kUint16:
    case GgufType::kInt16:
      return 2;
    case GgufType::kUint32:
    case GgufType::kInt32:
    case GgufType::kFloat32:
      return 4;
    case GgufType::kUint64:
    case GgufType::kInt64:
    case GgufType::kFloat64:
    case GgufType::kString:
      return 8;
    case GgufType::kArray:
      return 12;
  }
  return 1;
}

}  // namespace

GgufCursor::GgufCursor(std::string_view bytes, uint64_t file_bytes)
    : bytes_(bytes.substr(0, file_bytes)),
      file_bytes_(file_bytes),
      limit_(std::min(file_bytes, kMostGgufHeaderBytes)) {
  bytes_ = bytes_.substr(0, limit_);
}

absl::Status GgufCursor::Need(uint64_t bytes) const {
  if (bytes > left()) {
    if (file_bytes_ > kMostGgufHeaderBytes) {
      return Invalid(
          Cat("the header of the GGUF file has more than ", kMostGgufHeaderBytes, " bytes"));
    }
    return Invalid(Cat("the GGUF file ends within its header, at byte ", file_bytes_));
  }
  if (bytes <= bytes_.size() - at_) return absl::OkStatus();
  return absl::OutOfRangeError(Cat("the header of the GGUF file goes on behind byte ",
                                   bytes_.size(), ", up to which it was read"));
}

absl::StatusOr<std::string_view> GgufCursor::Take(uint64_t bytes) {
  UOPD_TRY(Need(bytes));
  const std::string_view out = bytes_.substr(at_, bytes);
  at_ += bytes;
  return out;
}

absl::StatusOr<std::string_view> GgufCursor::String() {
  UOPD_ASSIGN(const auto length, Number<uint64_t>());
  return Take(length);
}

absl::StatusOr<GgufType> GgufCursor::Type() {
  UOPD_ASSIGN(const auto number, Number<uint32_t>());
  if (number >= kGgufTypeCount)
    return Invalid(Cat("the GGUF file has a value of the unknown type ", number));
  return static_cast<GgufType>(number);
}

absl::StatusOr<GgufValue> GgufCursor::Value(GgufType type, int depth) {
  switch (type) {
    case GgufType::kUint8:
      return Widened<uint64_t, uint8_t>();
    case GgufType::kInt8:
      return Widened<int64_t, int8_t>();
    case GgufType::kUint16:
      return Widened<uint64_t, uint16_t>();
    case GgufType::kInt16:
      return Widened<int64_t, int16_t>();
    case GgufType::kUint32:
      return Widened<uint64_t, uint32_t>();
    case GgufType::kInt32:
      return Widened<int64_t, int32_t>();
    case GgufType::kFloat32:
      return Widened<double, float>();
    case GgufType::kBool:
      return Widened<bool, uint8_t>();
    case GgufType::kUint64:
      return Widened<uint64_t, uint64_t>();
    case GgufType::kInt64:
      return Widened<int64_t, int64_t>();
    case GgufType::kFloat64:
      return Widened<double, double>();
    case GgufType::kString: {
      UOPD_ASSIGN(const std::string_view text, String());
      return GgufValue(text);
    }
    case GgufType::kArray: {
      UOPD_ASSIGN(const GgufArray array, Array(depth + 1));
      return GgufValue(array);
    }
  }
  return Invalid("the GGUF file has a value of an unknown type");
}

absl::StatusOr<GgufArray> GgufCursor::Array(int depth) {
  if (depth > kMostGgufDepth) return Invalid(Cat("the GGUF file has arrays in ", depth, " arrays"));
  GgufArray out;
  UOPD_ASSIGN(out.type, Type());
  UOPD_ASSIGN(out.count, Number<uint64_t>());
  const uint64_t least = LeastBytes(out.type);
  if (out.count > left() / least) {
    return Invalid(
        Cat("the GGUF file has an array of ", out.count, " elements and ends before them"));
  }
  if (out.type != GgufType::kString && out.type != GgufType::kArray) {
    UOPD_ASSIGN(out.bytes, Take(out.count * least));
    return out;
  }
  const uint64_t begin = at_;
  for (uint64_t i = 0; i < out.count; ++i) {
    if (out.type == GgufType::kString)
      UOPD_TRY(String().status());
    else
      UOPD_TRY(Array(depth + 1).status());
  }
  out.bytes = bytes_.substr(begin, at_ - begin);
  return out;
}

GgufValue GgufElements::Next() {
  UOPD_CHECK(left_ > 0);
  GgufCursor cursor(array_.bytes.substr(at_), array_.bytes.size() - at_);
  // The parser has read these bytes before.
  const auto value = cursor.Value(array_.type, 0);
  UOPD_CHECK(value.ok());
  at_ += cursor.at();
  --left_;
  return *value;
}

}  // namespace uopd::client
