// SPDX-License-Identifier: MIT
// Headers of GGUF files, right and wrong ones, for tests of their reader.
#pragma once
#include <concepts>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "uopd/gguf.h"

namespace uopd::test {

// Appends the parts of a header, and remembers where its numbers lie.
class GgufBytes {
 public:
  struct Number {
    size_t at = 0, bytes = 0;
  };

  std::string bytes;
  std::vector<Number> numbers;  // but for elements of values

  template <class T>
  GgufBytes& Put(T number) {
    numbers.push_back({bytes.size(), sizeof(T)});
    return Element(number);
  }
  template <class T>
  GgufBytes& Element(T number) {
    bytes.append(reinterpret_cast<const char*>(&number), sizeof(T));
    return *this;
  }
  GgufBytes& Text(std::string_view text) {
    Put<uint64_t>(text.size());
    bytes += text;
    return *this;
  }
  GgufBytes& Type(client::GgufType type) { return Put(static_cast<uint32_t>(type)); }
  // The beginning of a value.
  GgufBytes& Key(std::string_view key, client::GgufType type) { return Text(key).Type(type); }
  // The beginning of an array.
  GgufBytes& Array(client::GgufType type, uint64_t count) { return Type(type).Put(count); }
  // The beginning of the file.
  GgufBytes& Start(uint64_t tensors, uint64_t values, uint32_t version = 3,
                   std::string_view magic = "GGUF") {
    bytes += magic;
    return Put(version).Put(tensors).Put(values);
  }
  // `dims` as in the file: the innermost axis first.
  GgufBytes& Tensor(std::string_view name, const std::vector<uint64_t>& dims, uint32_t type,
                    uint64_t offset) {
    Text(name).Put(static_cast<uint32_t>(dims.size()));
    for (const uint64_t d : dims) Put(d);
    return Put(type).Put(offset);
  }
  GgufBytes& Alignment(uint32_t alignment) {
    return Key("general.alignment", client::GgufType::kUint32).Put(alignment);
  }
};

}  // namespace uopd::test
