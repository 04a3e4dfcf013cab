// SPDX-License-Identifier: MIT
// Counts the fields of an HTTP/2 header block (HPACK, RFC 7541) without decoding them.
//
// A field that the receiver has seen before takes one byte, and costs the receiver a hundred times
// as much. So the size of a block alone bounds little.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>

namespace uopd::net {

class HeaderFields {
 public:
  void BeginBlock() { *this = {}; }
  // The next bytes of the block, cut anywhere.
  void Receive(std::span<const uint8_t> bytes);
  size_t fields() const { return fields_; }

 private:
  // What the next byte is.
  enum State : uint8_t { kField, kIndex, kLength, kMoreLength, kText };

  void BeginField(uint8_t first);
  void OnIndex();
  void OnLength();

  State state_ = kField;
  bool has_text_ = false;  // the field has a value, or a name and a value, in the block
  int texts_left_ = 0;
  int shift_ = 0;
  uint64_t number_ = 0;  // of the index or length that is being read; then: bytes left of the text
  size_t fields_ = 0;
};

}  // namespace uopd::net
