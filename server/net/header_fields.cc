// SPDX-License-Identifier: MIT
#include "server/net/header_fields.h"

#include <algorithm>

namespace uopd::net {
namespace {

constexpr int kMostShift = 28;  // longer numbers are errors, which the library finds

constexpr uint8_t Below(int bits) { return static_cast<uint8_t>((1 << bits) - 1); }

}  // namespace

void HeaderFields::Receive(std::span<const uint8_t> bytes) {
  for (size_t i = 0; i < bytes.size();) {
    if (state_ == kText) {
      const size_t skipped = std::min<uint64_t>(number_, bytes.size() - i);
      i += skipped;
      number_ -= skipped;
      if (number_ == 0) state_ = texts_left_ > 0 ? kLength : kField;
      continue;
    }
    const uint8_t byte = bytes[i++];
    switch (state_) {
      case kField:
        BeginField(byte);
        break;
      case kLength:
        --texts_left_;
        number_ = byte & Below(7);
        shift_ = 0;
        if (number_ == Below(7)) {
          state_ = kMoreLength;
        } else {
          OnLength();
        }
        break;
      default:  // kIndex, kMoreLength
        if (shift_ <= kMostShift) number_ += static_cast<uint64_t>(byte & Below(7)) << shift_;
        shift_ += 7;
        if ((byte & 0x80) != 0) break;
        if (state_ == kIndex) {
          OnIndex();
        } else {
          OnLength();
        }
    }
  }
}

void HeaderFields::BeginField(uint8_t first) {
  ++fields_;  // also a change of the table's size
  const int bits = (first & 0x80) != 0 ? 7 : (first & 0x40) != 0 ? 6 : (first & 0x20) != 0 ? 5 : 4;
  has_text_ = bits == 6 || bits == 4;
  number_ = first & Below(bits);
  shift_ = 0;
  if (number_ == Below(bits)) {
    state_ = kIndex;
  } else {
    OnIndex();
  }
}

// Index 0: the name follows, and then the value.
void HeaderFields::OnIndex() {
  texts_left_ = !has_text_ ? 0 : number_ == 0 ? 2 : 1;
  state_ = texts_left_ > 0 ? kLength : kField;
}

void HeaderFields::OnLength() { state_ = number_ > 0 ? kText : texts_left_ > 0 ? kLength : kField; }

}  // namespace uopd::net
