// SPDX-License-Identifier: MIT
// Reads tensors of ONNX, without their contents.
#include <algorithm>
#include <charconv>

#include "client/cpp/onnx/fields.h"
#include "client/cpp/onnx/reader.h"
#include "client/cpp/state/shown_name.h"
#include "core/base/text.h"

namespace uopd::client::onnx {
namespace {

constexpr size_t kMostLocationBytes = 4095;  // what the system takes as a path

absl::Status AddOnnxPart(Fields& in, const WireField& field, OnnxTensor& out) {
  if (!out.parts.empty() && out.parts[0].field != field.number) {
    return Invalid(Cat("the tensor has contents in field ", out.parts[0].field, " and in field ",
                       field.number, " at byte ", field.at));
  }
  const bool packed = field.type == WireType::kBytes;
  if (packed && field.begin == field.end) return absl::OkStatus();
  if (!packed) {
    UOPD_TRY(NeedType(field, field.number == kFloatData    ? WireType::kFixed32
                             : field.number == kDoubleData ? WireType::kFixed64
                                                           : WireType::kVarint));
    // Numbers behind one another are one part.
    if (!out.parts.empty() && !out.parts.back().packed && out.parts.back().end == field.at) {
      out.parts.back().end = field.end;
      return absl::OkStatus();
    }
  }
  // A list that grows has its old and its new memory for a moment.
  UOPD_TRY(in.reading().Charge(3 * sizeof(OnnxPart)));
  out.parts.push_back({packed ? field.begin : field.at, field.end, field.number, packed});
  return absl::OkStatus();
}

// What a tensor has besides what is kept of it.
struct OnnxTensorFields {
  bool external = false;  // data_location
  std::vector<OnnxEntry> entries;
};

absl::Status ReadOnnxTensorField(Fields& in, const WireField& field, OnnxTensorFields& more,
                                 OnnxTensor& out) {
  switch (field.number) {
    case 1:
      return in.Add(field, out.dims);
    case 2: {
      UOPD_ASSIGN(const int64_t number, in.Int64(field));
      out.type = FindOnnxElementType(number);
      if (out.type != nullptr) return absl::OkStatus();
      return Invalid(Cat("the type of elements at byte ", field.at, " is ", number,
                         ", which is not known here"));
    }
    case 3:
      return Invalid(Cat("the tensor is a segment of another one at byte ", field.at));
    case kStringData:
      return in.Add(field, out.strings);
    case 8: {
      UOPD_ASSIGN(out.name, in.String(field));
      return absl::OkStatus();
    }
    case kRawData:
      UOPD_TRY(in.Once(field).status());
      return AddOnnxPart(in, field, out);
    case kFloatData:
    case kInt32Data:
    case kInt64Data:
    case kDoubleData:
    case kUint64Data:
      return AddOnnxPart(in, field, out);
    case 12: {
      UOPD_ASSIGN(out.doc_string, in.String(field));
      return absl::OkStatus();
    }
    case 13: {
      UOPD_ASSIGN(const Fields entry, in.Add(field, more.entries));
      return ReadEntry(entry, more.entries.back());
    }
    case 14: {
      UOPD_ASSIGN(const int64_t place, in.Int64(field));
      if (place < 0 || place > 1)
        return Invalid(Cat("the data_location at byte ", field.at, " is ", place));
      more.external = place == 1;
      return absl::OkStatus();
    }
    default:
      return absl::OkStatus();
  }
}

absl::Status CheckOnnxTensor(Reading& reading, const OnnxTensorFields& more, OnnxTensor& out) {
  if (out.type == nullptr) return Invalid("the tensor has no type of elements");
  const auto elements = ElementsOf(out.dims);
  if (!elements) return Invalid(Cat("the tensor has the sizes ", SizesOf(out.dims)));
  const bool strings = out.type->bits == 0;
  if (more.external) {
    if (strings || !out.parts.empty() || !out.strings.empty())
      return Invalid(
          "the tensor has its contents in another file and is one of strings or has contents here");
    UOPD_TRY(reading.Charge(sizeof(OnnxExternal) + 16));
    out.external = std::make_unique<OnnxExternal>();
    return ReadExternal(more.entries, out.bytes(), *out.external);
  }
  const uint64_t want = strings ? *elements : 0;
  if (out.strings.size() != want || (strings && !out.parts.empty())) {
    return Invalid(Cat("a tensor ", out.type->name, " of the sizes ", SizesOf(out.dims), " has ",
                       out.strings.size(), " strings", out.parts.empty() ? "" : " and numbers",
                       ", not ", want));
  }
  return CheckParts(*reading.source, out);
}

// The number in an entry of external_data.
absl::StatusOr<uint64_t> OnnxEntryNumber(const OnnxEntry& entry) {
  uint64_t out = 0;
  const char* const end = entry.value.data() + entry.value.size();
  const auto [stop, error] = std::from_chars(entry.value.data(), end, out);
  if (error != std::errc() || stop != end || out > INT64_MAX)
    return Invalid(Cat(entry.key, " of its external data is ", ShownName(entry.value)));
  return out;
}

absl::Status CheckLocation(std::string_view location) {
  const auto wrong = [&](std::string_view why) {
    return Invalid(Cat("the path ", ShownName(location), " of its external data ", why));
  };
  if (location.empty()) return wrong("is empty");
  if (location.size() > kMostLocationBytes) return wrong("is too long");
  if (location.find('\0') != std::string_view::npos) return wrong("has a byte 0");
  if (location[0] == '/') return wrong("is absolute");
  for (size_t at = 0; at <= location.size();) {
    const size_t end = std::min(location.find('/', at), location.size());
    if (location.substr(at, end - at) == "..") return wrong("leads out of its folder");
    at = end + 1;
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status ReadExternal(const std::vector<OnnxEntry>& entries, uint64_t bytes,
                          OnnxExternal& out) {
  std::vector<std::string_view> keys;
  for (const OnnxEntry& entry : entries) {
    keys.push_back(entry.key);
    if (entry.key == "location") {
      out.location = entry.value;
    } else if (entry.key == "offset") {
      UOPD_ASSIGN(out.offset, OnnxEntryNumber(entry));
    } else if (entry.key == "length") {
      UOPD_ASSIGN(const uint64_t length, OnnxEntryNumber(entry));
      if (length != bytes) {
        return Invalid(
            Cat("its external data has ", length, " bytes; its sizes and type make ", bytes));
      }
    } else if (entry.key == "checksum") {
      out.checksum = entry.value;
    }
  }
  UOPD_TRY(CheckNames(std::move(keys), "of its external data"));
  return CheckLocation(out.location);
}

absl::Status ReadTensor(Fields in, OnnxTensor& out) {
  const auto read = [&]() -> absl::Status {
    UOPD_TRY(in.Count());
    OnnxTensorFields more;
    while (in.more()) {
      UOPD_ASSIGN(const WireField field, in.Next());
      UOPD_TRY(ReadOnnxTensorField(in, field, more, out));
    }
    return CheckOnnxTensor(in.reading(), more, out);
  };
  const uint64_t begin = in.at();
  const absl::Status status = read();
  if (status.ok()) return absl::OkStatus();
  return WithFrame(status, out.name.empty()
                               ? Cat("reading the tensor at byte ", begin)
                               : Cat("reading tensor ", ShownName(out.name), " at byte ", begin));
}

absl::Status ReadSparseTensor(Fields in, OnnxSparseTensor& out) {
  const uint64_t begin = in.at();
  const auto wrong = [&](std::string_view what) {
    return Invalid(Cat(Shown("sparse tensor", out.values.name, 0), " at byte ", begin, " ", what));
  };
  while (in.more()) {
    UOPD_ASSIGN(const WireField field, in.Next());
    if (field.number == 1) {
      UOPD_ASSIGN(const Fields values, in.Once(field));
      UOPD_TRY(ReadTensor(values, out.values));
    } else if (field.number == 2) {
      UOPD_ASSIGN(const Fields indices, in.Once(field));
      UOPD_TRY(ReadTensor(indices, out.indices));
    } else if (field.number == 3) {
      UOPD_TRY(in.Add(field, out.dims));
    }
  }
  if (out.values.type == nullptr || out.indices.type == nullptr)
    return wrong("lacks its values or its indices");
  if (!ElementsOf(out.dims)) return wrong(Cat("has the sizes ", SizesOf(out.dims)));
  const Dims& indices = out.indices.dims;
  const bool one = indices.size() == 1;
  const bool rows = indices.size() == 2 && indices[1] == static_cast<int64_t>(out.dims.size());
  if (out.values.dims.size() != 1 || out.indices.type->dtype != Dtype::I64 || !(one || rows) ||
      indices[0] != out.values.dims[0]) {
    return wrong(Cat("of the sizes ", SizesOf(out.dims), " has values of the sizes ",
                     SizesOf(out.values.dims), " and indices ", out.indices.type->name,
                     " of the sizes ", SizesOf(indices)));
  }
  return absl::OkStatus();
}

}  // namespace uopd::client::onnx
