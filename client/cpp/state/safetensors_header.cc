// SPDX-License-Identifier: MIT
// The header of safetensors files: JSON of one fixed form.
#include <algorithm>
#include <cstring>
#include <limits>
#include <nlohmann/json.hpp>
#include <numeric>
#include <optional>

#include "absl/container/flat_hash_set.h"
#include "client/cpp/graph/build.h"
#include "client/cpp/state/shown_name.h"
#include "core/base/text.h"
#include "uopd/safetensors.h"

namespace uopd::client {
namespace {

constexpr struct {
  std::string_view name;
  Dtype dtype;
} kSafeDtypes[] = {{"BOOL", Dtype::Bool},      {"U8", Dtype::U8},   {"I8", Dtype::I8},
                   {"U16", Dtype::U16},        {"I16", Dtype::I16}, {"U32", Dtype::U32},
                   {"I32", Dtype::I32},        {"U64", Dtype::U64}, {"I64", Dtype::I64},
                   {"F8_E4M3", Dtype::F8E4M3}, {"F16", Dtype::F16}, {"BF16", Dtype::BF16},
                   {"F8_E5M2", Dtype::F8E5M2}, {"F32", Dtype::F32}, {"F64", Dtype::F64}};

constexpr std::string_view kMetadataName = "__metadata__";

absl::Status BadFile(std::string_view message) { return Invalid(Cat("safetensors: ", message)); }

// Text of the parser, which may quote bytes that are no UTF-8.
std::string AsciiOf(std::string_view text) {
  std::string out;
  for (const char c : text) out += c < 32 || c > 126 ? '?' : c;
  return out;
}

// Takes the events of the JSON parser. What does not belong into a header is refused at once, so
// nesting costs nothing.
class HeaderReader {
 public:
  explicit HeaderReader(SafetensorsHeader& out) : out_(out) {}
  const absl::Status& error() const { return error_; }

  bool start_object(size_t) {
    if (place_ == Place::kStart) return Go(Place::kNames);
    if (place_ == Place::kTensor) return Go(Place::kFields);
    if (place_ == Place::kMetadata) return Go(Place::kTexts);
    return Unexpected("an object");
  }
  bool end_object() {
    if (place_ == Place::kNames) return Go(Place::kEnd);
    if (place_ == Place::kTexts) return Go(Place::kNames);
    if (!has_dtype_) return Fail(Cat(Where(), " has no dtype"));
    if (!has_shape_) return Fail(Cat(Where(), " has no shape"));
    if (!has_offsets_) return Fail(Cat(Where(), " has no data_offsets"));
    return Go(Place::kNames);
  }
  bool key(std::string& text) {
    if (place_ == Place::kNames) return TopKey(text);
    if (place_ == Place::kTexts) {
      if (!texts_.insert(text).second)
        return Fail(Cat("the metadata has ", ShownName(text), " twice"));
      out_.metadata.emplace_back(text, "");
      return Go(Place::kText);
    }
    return Field(text);
  }
  bool string(std::string& text) {
    if (place_ == Place::kText) {
      out_.metadata.back().second = text;
      return Go(Place::kTexts);
    }
    if (place_ != Place::kDtype) return Unexpected("a string");
    for (const auto& [name, dtype] : kSafeDtypes) {
      if (name != text) continue;
      entry().dtype = dtype;
      return Go(Place::kFields);
    }
    return Fail(Cat(Where(), " has the dtype ", ShownName(text), ", which is not supported"));
  }
  bool start_array(size_t) {
    if (place_ == Place::kShape) return Go(Place::kSizes);
    if (place_ == Place::kOffsets) return Go(Place::kBegin);
    return Unexpected("a list");
  }
  bool end_array() {
    if (place_ != Place::kSizes && place_ != Place::kAfterOffsets)
      return Fail(Cat(Where(), ": data_offsets are not two numbers"));
    return Go(Place::kFields);
  }
  bool number_unsigned(uint64_t v) {
    if (place_ == Place::kSizes) {
      if (entry().dims.size() == ir::kMaxRank)
        return Fail(Cat(Where(), " has more than ", ir::kMaxRank, " axes"));
      if (v > static_cast<uint64_t>(ir::kMaxElements))
        return Fail(Cat(Where(), " has an axis of ", v, " elements, more than 2^48"));
      entry().dims.push_back(static_cast<int64_t>(v));
      return true;
    }
    if (place_ == Place::kBegin) {
      entry().begin = v;
      return Go(Place::kOffsetEnd);
    }
    if (place_ == Place::kOffsetEnd) {
      entry().end = v;
      return Go(Place::kAfterOffsets);
    }
    if (place_ == Place::kAfterOffsets)
      return Fail(Cat(Where(), ": data_offsets are not two numbers"));
    return Unexpected("a number");
  }
  bool number_integer(int64_t v) { return Unexpected(Cat("the number ", v)); }
  bool number_float(double, const std::string& text) {
    return Unexpected(Cat("the number ", ShownName(text)));
  }
  bool null() { return Unexpected("null"); }
  bool boolean(bool) { return Unexpected("a bool"); }
  bool binary(std::vector<uint8_t>&) { return Unexpected("bytes"); }
  bool parse_error(size_t position, const std::string&, const nlohmann::json::exception& e) {
    // The part of the parser's message behind "syntax error while parsing value - ".
    std::string_view what = e.what();
    if (const size_t at = what.find(" - "); at != std::string_view::npos)
      what.remove_prefix(at + 3);
    return Fail(Cat("the header is no JSON, at its byte ", position, ": ", AsciiOf(what)));
  }

 private:
  // What comes next.
  enum class Place {
    kStart,
    kNames,
    kTensor,
    kFields,
    kDtype,
    kShape,
    kSizes,
    kOffsets,
    kBegin,
    kOffsetEnd,
    kAfterOffsets,
    kMetadata,
    kTexts,
    kText,
    kEnd
  };

  bool Go(Place next) {
    place_ = next;
    return true;
  }
  bool Fail(std::string_view message) {
    error_ = BadFile(message);
    return false;
  }
  bool Unexpected(std::string_view what) {
    switch (place_) {
      case Place::kStart:
        return Fail(Cat("the header is ", what, ", not an object"));
      case Place::kTensor:
        return Fail(Cat(Where(), " is ", what, ", not an object"));
      case Place::kDtype:
        return Fail(Cat(Where(), ": the dtype is ", what, ", not a string"));
      case Place::kShape:
        return Fail(Cat(Where(), ": the shape is ", what, ", not a list"));
      case Place::kSizes:
        return Fail(Cat(Where(), ": the shape holds ", what));
      case Place::kOffsets:
        return Fail(Cat(Where(), ": data_offsets is ", what, ", not a list"));
      case Place::kBegin:
      case Place::kOffsetEnd:
      case Place::kAfterOffsets:
        return Fail(Cat(Where(), ": data_offsets hold ", what));
      case Place::kMetadata:
        return Fail(Cat(kMetadataName, " is ", what, ", not an object"));
      case Place::kText:
        return Fail(Cat("the metadata ", ShownName(out_.metadata.back().first), " is ", what,
                        ", not a string"));
      case Place::kNames:
      case Place::kFields:
      case Place::kTexts:
      case Place::kEnd:
        break;
    }
    return Fail(Cat("the header has ", what, " where none may be"));
  }
  SafetensorsEntry& entry() { return out_.entries.back(); }
  std::string Where() { return Cat("tensor ", ShownName(entry().name)); }

  bool TopKey(const std::string& text) {
    if (!names_.insert(text).second) return Fail(Cat("the header has ", ShownName(text), " twice"));
    if (text == kMetadataName) return Go(Place::kMetadata);
    out_.entries.emplace_back().name = text;
    has_dtype_ = has_shape_ = has_offsets_ = false;
    return Go(Place::kTensor);
  }
  bool Field(std::string_view text) {
    bool* const seen = text == "dtype"          ? &has_dtype_
                       : text == "shape"        ? &has_shape_
                       : text == "data_offsets" ? &has_offsets_
                                                : nullptr;
    if (seen == nullptr) return Fail(Cat(Where(), " has an unknown field ", ShownName(text)));
    if (*seen) return Fail(Cat(Where(), " has ", text, " twice"));
    *seen = true;
    return Go(seen == &has_dtype_   ? Place::kDtype
              : seen == &has_shape_ ? Place::kShape
                                    : Place::kOffsets);
  }

  SafetensorsHeader& out_;
  absl::Status error_;
  Place place_ = Place::kStart;
  bool has_dtype_ = false, has_shape_ = false, has_offsets_ = false;
  absl::flat_hash_set<std::string> names_, texts_;
};

// The bytes of a tensor, or nullopt for more than 2^48 elements.
std::optional<uint64_t> BytesOf(const SafetensorsEntry& e) {
  ir::Int128 n = 1;
  for (const int64_t d : e.dims) {
    n *= d;
    if (n > ir::kMaxElements) return std::nullopt;
  }
  return static_cast<uint64_t>(n) * static_cast<uint64_t>(ir::ByteSize(e.dtype));
}

absl::Status CheckOffsets(const SafetensorsHeader& header, uint64_t data_bytes) {
  std::vector<const SafetensorsEntry*> in_order;
  for (const SafetensorsEntry& e : header.entries) {
    const auto fail = [&](std::string_view what) {
      return BadFile(Cat("tensor ", ShownName(e.name), what));
    };
    const auto bytes = BytesOf(e);
    if (!bytes) return fail(Cat(" of shape ", Text(e.dims), " has more than 2^48 elements"));
    if (e.end < e.begin || e.end > data_bytes) {
      return fail(Cat(" has the data_offsets ", e.begin, " and ", e.end, "; the file has ",
                      data_bytes, " bytes of data"));
    }
    if (e.end - e.begin != *bytes) {
      return fail(Cat(" of ", ir::Name(e.dtype), " and shape ", Text(e.dims), " takes ", *bytes,
                      " bytes; its data_offsets give it ", e.end - e.begin));
    }
    in_order.push_back(&e);
  }
  std::sort(in_order.begin(), in_order.end(), [](const auto* a, const auto* b) {
    return std::pair(a->begin, a->end) < std::pair(b->begin, b->end);
  });
  uint64_t at = 0;
  for (const SafetensorsEntry* e : in_order) {
    if (e->begin != at) {
      return BadFile(Cat("tensor ", ShownName(e->name), " begins at byte ", e->begin,
                         " of the data; the one before ends at ", at));
    }
    at = e->end;
  }
  if (at != data_bytes)
    return BadFile(
        Cat("the tensors take ", at, " bytes; the file has ", data_bytes, " bytes of data"));
  return absl::OkStatus();
}

void AppendJson(std::string& out, std::string_view text) {
  constexpr std::string_view kHex = "0123456789abcdef";
  out += '"';
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\')
      out += '\\', out += c;
    else if (byte < 32)
      Append(out, "\\u00", kHex[byte >> 4], kHex[byte & 15]);
    else
      out += c;
  }
  out += '"';
}

std::string HeaderJson(const std::vector<SafetensorsEntry>& entries,
                       const SafetensorsMetadata& metadata) {
  std::string out = "{";
  auto next = [&] { return out.back() == '{' ? "" : ","; };
  if (!metadata.empty()) {
    AppendJson(out, kMetadataName);
    out += ":{";
    for (const auto& [key, text] : metadata) {
      out += next();
      AppendJson(out, key);
      out += ':';
      AppendJson(out, text);
    }
    out += '}';
  }
  for (const SafetensorsEntry& e : entries) {
    out += next();
    AppendJson(out, e.name);
    out += ":{\"dtype\":\"";
    for (const auto& [name, dtype] : kSafeDtypes) {
      if (dtype == e.dtype) out += name;
    }
    out += "\",\"shape\":[";
    for (size_t i = 0; i < e.dims.size(); ++i) Append(out, i == 0 ? "" : ",", e.dims[i]);
    Append(out, "],\"data_offsets\":[", e.begin, ",", e.end, "]}");
  }
  out += '}';
  out.resize((out.size() + 7) / 8 * 8, ' ');
  return out;
}

}  // namespace

absl::StatusOr<uint64_t> SafetensorsHeaderEnd(std::string_view start, uint64_t file_bytes) {
  uint64_t length = 0;
  if (start.size() < sizeof(length) || file_bytes < sizeof(length))
    return BadFile(
        Cat("the file has ", file_bytes, " bytes, less than the length of a header takes"));
  std::memcpy(&length, start.data(), sizeof(length));  // little-endian, as every host of uopd
  if (length > kMostHeaderBytes)
    return BadFile(
        Cat("the header has a length of ", length, " bytes, more than ", kMostHeaderBytes));
  if (length > file_bytes - sizeof(length)) {
    return BadFile(Cat("the header has a length of ", length, " bytes; the file has ",
                       file_bytes - sizeof(length), " behind that number"));
  }
  return sizeof(length) + length;
}

absl::StatusOr<SafetensorsHeader> ParseSafetensors(std::string_view start, uint64_t file_bytes) {
  UOPD_ASSIGN(const uint64_t data_start, SafetensorsHeaderEnd(start, file_bytes));
  if (start.size() < data_start) return BadFile("the header is cut off");
  const std::string_view text = start.substr(8, data_start - 8);
  if (!text.starts_with('{')) return BadFile("the header does not begin with `{`");
  // The parser takes it for the end of the text, and would not see what is behind it.
  if (text.find('\0') != std::string_view::npos) return BadFile("the header has a zero byte");
  SafetensorsHeader header;
  header.data_start = data_start;
  HeaderReader reader(header);
  if (!nlohmann::json::sax_parse(text.begin(), text.end(), &reader)) return reader.error();
  UOPD_TRY(CheckOffsets(header, file_bytes - data_start));
  return header;
}

absl::StatusOr<std::string> FormatSafetensors(std::vector<SafetensorsEntry>& entries,
                                              const SafetensorsMetadata& metadata) {
  std::vector<size_t> order(entries.size());
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    const int64_t of_a = ir::ByteSize(entries[a].dtype), of_b = ir::ByteSize(entries[b].dtype);
    return of_a != of_b ? of_a > of_b : a < b;
  });
  uint64_t at = 0;
  for (const size_t i : order) {
    SafetensorsEntry& e = entries[i];
    if (e.name == kMetadataName) return BadFile(Cat("no tensor can have the name ", kMetadataName));
    const auto bytes = BytesOf(e);
    if (!bytes || *bytes > std::numeric_limits<uint64_t>::max() / 2 - at)
      return BadFile(Cat("tensor ", ShownName(e.name), " is too large"));
    e.begin = at;
    e.end = at += *bytes;
  }
  const std::string json = HeaderJson(entries, metadata);
  const uint64_t length = json.size();
  std::string out(reinterpret_cast<const char*>(&length), sizeof(length));
  out += json;
  // Names that are no UTF-8, names that are there twice, too long a header.
  UOPD_TRY(ParseSafetensors(out, out.size() + at).status());
  return out;
}

}  // namespace uopd::client
