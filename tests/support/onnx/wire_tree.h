// SPDX-License-Identifier: MIT
// Messages in the wire format of protobuf as trees of fields, right and wrong ones, for tests of
// the reader of ONNX files. A tree can be changed before it is written: lengths follow.
#pragma once
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace uopd::test {

inline void PutVarint(std::string& out, uint64_t value) {
  for (; value >= 0x80; value >>= 7) out += static_cast<char>(value | 0x80);
  out += static_cast<char>(value);
}
template <class T>
void PutNumber(std::string& out, T value) {
  out.append(reinterpret_cast<const char*>(&value), sizeof(T));
}

struct WireTree {
  uint32_t number = 0;
  uint32_t type = 2;               // of the wire: 0 varint, 1 eight bytes, 2 bytes, 5 four bytes
  uint64_t value = 0;              // of the types 0, 1 and 5
  std::string bytes;               // of type 2, in front of the fields
  std::vector<WireTree> children;  // of type 2: the fields of a message

  void Write(std::string& out) const {
    PutVarint(out, uint64_t{number} << 3 | type);
    if (type == 0) PutVarint(out, value);
    if (type == 1) PutNumber(out, value);
    if (type == 5) PutNumber(out, static_cast<uint32_t>(value));
    if (type != 2) return;
    std::string contents = bytes;
    for (const WireTree& child : children) child.Write(contents);
    PutVarint(out, contents.size());
    out += contents;
  }
};

inline WireTree Int(uint32_t number, int64_t value) {
  return {.number = number,
          .type = 0,
          .value = static_cast<uint64_t>(value),
          .bytes = {},
          .children = {}};
}
inline WireTree Text(uint32_t number, std::string_view text) {
  return {.number = number, .bytes = std::string(text), .children = {}};
}
inline WireTree Message(uint32_t number, std::vector<WireTree> fields) {
  return {.number = number, .bytes = {}, .children = std::move(fields)};
}
inline WireTree Float(uint32_t number, float value) {
  uint32_t bits = 0;
  std::memcpy(&bits, &value, 4);
  return {.number = number, .type = 5, .value = bits, .bytes = {}, .children = {}};
}
inline WireTree Double(uint32_t number, double value) {
  uint64_t bits = 0;
  std::memcpy(&bits, &value, 8);
  return {.number = number, .type = 1, .value = bits, .bytes = {}, .children = {}};
}
inline WireTree PackedInts(uint32_t number, const std::vector<int64_t>& values) {
  WireTree out = Text(number, "");
  for (const int64_t v : values) PutVarint(out.bytes, static_cast<uint64_t>(v));
  return out;
}
template <class T>
WireTree PackedNumbers(uint32_t number, const std::vector<T>& values) {
  WireTree out = Text(number, "");
  for (const T v : values) PutNumber(out.bytes, v);
  return out;
}

// The bytes of a message.
inline std::string Written(std::span<const WireTree> fields) {
  std::string out;
  for (const WireTree& field : fields) field.Write(out);
  return out;
}
inline std::string Written(const std::vector<WireTree>& fields) {
  return Written(std::span<const WireTree>(fields));
}

// Some messages of ONNX. `more`: fields besides.
inline std::vector<WireTree> With(std::vector<WireTree> fields, std::vector<WireTree> more) {
  for (WireTree& field : more) fields.push_back(std::move(field));
  return fields;
}
// A model with these fields in its graph.
inline std::string OnnxModelOf(std::vector<WireTree> graph) {
  return Written(std::vector<WireTree>{Int(1, 8), Message(8, {Text(1, ""), Int(2, 18)}),
                                       Message(7, std::move(graph))});
}
inline WireTree OnnxNodeOf(std::string_view op, std::vector<WireTree> more = {}) {
  return Message(1, With({Text(4, op)}, std::move(more)));
}
// A model with a node that has this attribute: the fields besides its name.
inline std::string OnnxModelOfAttribute(std::vector<WireTree> fields) {
  return OnnxModelOf({OnnxNodeOf("Op", {Message(5, With({Text(1, "a")}, std::move(fields)))})});
}
// Fields of a tensor besides its contents.
inline std::vector<WireTree> OnnxTensorFields(std::string_view name,
                                              const std::vector<int64_t>& dims, int32_t type,
                                              std::vector<WireTree> more = {}) {
  return With({PackedInts(1, dims), Int(2, type), Text(8, name)}, std::move(more));
}
inline WireTree OnnxInitializer(std::string_view name, const std::vector<int64_t>& dims,
                                int32_t type, std::vector<WireTree> more = {}) {
  return Message(5, OnnxTensorFields(name, dims, type, std::move(more)));
}
// An initialiser with contents in another file.
inline WireTree OnnxElsewhere(std::string_view name, const std::vector<int64_t>& dims, int32_t type,
                              const std::vector<std::pair<std::string, std::string>>& entries) {
  std::vector<WireTree> more = {Int(14, 1)};
  for (const auto& [key, value] : entries)
    more.push_back(Message(13, {Text(1, key), Text(2, value)}));
  return OnnxInitializer(name, dims, type, std::move(more));
}

}  // namespace uopd::test
