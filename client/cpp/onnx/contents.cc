// SPDX-License-Identifier: MIT
// The contents of ONNX tensors in the file of the model.
#include <algorithm>

#include "client/cpp/onnx/fields.h"
#include "client/cpp/onnx/reader.h"
#include "core/base/text.h"

namespace uopd::client {
namespace onnx {
namespace {

// How the numbers of a field of TensorProto are encoded.
WireType OnnxWireType(uint32_t field) {
  return field == kFloatData    ? WireType::kFixed32
         : field == kDoubleData ? WireType::kFixed64
                                : WireType::kVarint;
}

// How many numbers a field has for the elements of a tensor.
uint64_t OnnxNumbersOf(const OnnxTensor& tensor, uint32_t field) {
  if (field == kFloatData) return tensor.bytes() / 4;
  if (field == kDoubleData) return tensor.bytes() / 8;
  // Elements of less than a byte are numbers of whole bytes.
  return tensor.type->bits < 8 ? tensor.bytes() : tensor.elements();
}

// The bytes that a number of a field becomes.
uint64_t OnnxNumberBytes(const OnnxTensor& tensor, uint32_t field) {
  if (field == kFloatData) return 4;
  if (field == kDoubleData) return 8;
  return static_cast<uint64_t>(std::max(tensor.type->bits / 8, 1));
}

// Whether a number of a field of integers is one of the element type. Floats and packed elements
// are there as unsigned integers with their bits.
bool IsOnnxNumber(const OnnxElementType& type, uint64_t value) {
  const int bits = std::max(type.bits, 8);
  if (bits == 64) return true;
  if (type.dtype == Dtype::Bool) return value <= 1;
  const bool is_signed = type.dtype && ir::IsSigned(*type.dtype);
  if (!is_signed) return value < uint64_t{1} << bits;
  const auto number = static_cast<int64_t>(value);
  const int64_t limit = int64_t{1} << (bits - 1);
  return number >= -limit && number < limit;
}

// Calls `take` with the bits of each number of a part and with its byte in the file.
template <class Take>
absl::Status EachOnnxNumber(WireSource& source, const OnnxPart& part, const Take& take) {
  const WireType type = OnnxWireType(part.field);
  WireMessage in(source, part.begin, part.end);
  while (in.more()) {
    const uint64_t at = in.at();
    uint64_t value = 0;
    if (!part.packed) {
      UOPD_ASSIGN(const WireField field, in.Next());
      // Only a file that changed has another one here.
      if (field.number != part.field || field.type != type)
        return Invalid(Cat("field ", field.number, " is at byte ", at));
      value = field.value;
    } else if (type == WireType::kVarint) {
      UOPD_ASSIGN(value, in.Varint());
    } else {
      UOPD_ASSIGN(value, in.Fixed(type == WireType::kFixed32 ? 4 : 8));
    }
    UOPD_TRY(take(value, at));
  }
  return absl::OkStatus();
}

absl::Status CheckOnnxCount(const OnnxTensor& t, uint64_t have, uint64_t want,
                            std::string_view what) {
  if (have == want) return absl::OkStatus();
  return Invalid(Cat("a tensor ", t.type->name, " of the sizes ", SizesOf(t.dims), " has ", have,
                     " ", what, ", not ", want));
}

}  // namespace

absl::Status CheckParts(WireSource& source, const OnnxTensor& tensor) {
  if (tensor.parts.empty()) return CheckOnnxCount(tensor, 0, tensor.bytes(), "bytes of contents");
  const uint32_t field = tensor.parts[0].field;
  if (field == kRawData) {
    const OnnxPart& raw = tensor.parts[0];
    return CheckOnnxCount(tensor, raw.end - raw.begin, tensor.bytes(), "bytes of raw_data");
  }
  if (field != tensor.type->typed_field) {
    return Invalid(Cat("a tensor ", tensor.type->name, " has values in field ", field, " at byte ",
                       tensor.parts[0].begin, ", not in field ", tensor.type->typed_field));
  }
  uint64_t count = 0;
  for (const OnnxPart& part : tensor.parts) {
    const WireType type = OnnxWireType(field);
    if (part.packed && type != WireType::kVarint) {
      const uint64_t width = type == WireType::kFixed32 ? 4 : 8;
      if ((part.end - part.begin) % width != 0) {
        return Invalid(Cat("field ", field, " has ", part.end - part.begin, " bytes at byte ",
                           part.begin, ", no numbers of ", width));
      }
      count += (part.end - part.begin) / width;
      continue;
    }
    const auto take = [&](uint64_t value, uint64_t at) -> absl::Status {
      ++count;
      if (type != WireType::kVarint || IsOnnxNumber(*tensor.type, value)) return absl::OkStatus();
      return Invalid(Cat("the number ", static_cast<int64_t>(value), " at byte ", at, " is no ",
                         tensor.type->name));
    };
    UOPD_TRY(EachOnnxNumber(source, part, take));
  }
  return CheckOnnxCount(tensor, count, OnnxNumbersOf(tensor, field), "numbers");
}

absl::Status CheckRead(const OnnxTensor& tensor, std::span<char> out) {
  if (tensor.type->bits == 0) return Invalid("the elements of the tensor are strings");
  if (out.size() == tensor.bytes()) return absl::OkStatus();
  return Invalid(Cat("a tensor of ", tensor.bytes(), " bytes is read into ", out.size(), " bytes"));
}

absl::Status CopyParts(WireSource& source, const OnnxTensor& tensor, std::span<char> out) {
  const auto changed = [] {
    return absl::DataLossError("the contents of the tensor are not those that were parsed");
  };
  for (const OnnxPart& part : tensor.parts) {
    if (part.begin > part.end || part.end > source.bytes()) return changed();
    const uint64_t bytes = part.end - part.begin;
    if (part.field == kRawData || (part.packed && OnnxWireType(part.field) != WireType::kVarint)) {
      if (bytes > out.size()) return changed();
      UOPD_TRY(source.Copy(part.begin, out.first(bytes)));
      out = out.subspan(bytes);
      continue;
    }
    const uint64_t width = OnnxNumberBytes(tensor, part.field);
    const auto take = [&](uint64_t value, uint64_t) -> absl::Status {
      if (width > out.size()) return changed();
      std::memcpy(out.data(), &value, width);  // little-endian, as every host of uopd
      out = out.subspan(width);
      return absl::OkStatus();
    };
    const absl::Status status = EachOnnxNumber(source, part, take);
    if (absl::IsInvalidArgument(status)) return changed();
    UOPD_TRY(status);
  }
  return out.empty() ? absl::OkStatus() : changed();
}

}  // namespace onnx

uint64_t OnnxTensor::elements() const { return onnx::ElementsOf(dims).value_or(0); }

uint64_t OnnxTensor::bytes() const {
  return type == nullptr ? 0 : (elements() * static_cast<uint64_t>(type->bits) + 7) / 8;
}

absl::Status ReadOnnx(std::string_view file, const OnnxTensor& tensor, std::span<char> out) {
  UOPD_TRY(onnx::CheckRead(tensor, out));
  if (tensor.external != nullptr) {
    return Invalid(Cat(onnx::Shown("tensor", tensor.name, 0), " has its contents in another file"));
  }
  onnx::WireSource source(file);
  return onnx::CopyParts(source, tensor, out);
}

}  // namespace uopd::client
