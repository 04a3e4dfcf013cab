// SPDX-License-Identifier: MIT
// The encoding of what goes into the cache and of the wire form of graphs: varints, other numbers
// as varints, and length-prefixed strings.
//
// The reader never reads outside its input. It returns false if the input is cut off. Sizes in the
// input may be hostile, so callers must not reserve memory by them.
#pragma once
#include <bit>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

namespace uopd {

inline void PutVarint(std::string& out, uint64_t v) {
  while (v >= 0x80) {
    out += static_cast<char>(v | 0x80);
    v >>= 7;
  }
  out += static_cast<char>(v);
}
constexpr uint64_t ZigZag(int64_t v) {
  return static_cast<uint64_t>(v) << 1 ^ static_cast<uint64_t>(v >> 63);
}
constexpr int64_t UnZigZag(uint64_t v) { return static_cast<int64_t>(v >> 1 ^ (~(v & 1) + 1)); }
inline void PutSigned(std::string& out, int64_t v) { PutVarint(out, ZigZag(v)); }
inline void PutDouble(std::string& out, double v) { PutVarint(out, std::bit_cast<uint64_t>(v)); }
inline void PutBool(std::string& out, bool v) { PutVarint(out, v ? 1 : 0); }
inline void PutString(std::string& out, std::string_view s) {
  PutVarint(out, s.size());
  out += s;
}

class ByteReader {
 public:
  explicit ByteReader(std::string_view data) : p_(data.data()), end_(data.data() + data.size()) {}
  bool done() const { return p_ == end_; }
  size_t left() const { return static_cast<size_t>(end_ - p_); }

  [[nodiscard]] bool Varint(uint64_t& v) {
    v = 0;
    for (int shift = 0; shift < 64 && p_ < end_; shift += 7) {
      const auto byte = static_cast<uint8_t>(*p_++);
      v |= uint64_t{byte & 0x7fu} << shift;
      if (byte < 0x80) return true;
    }
    return false;
  }
  [[nodiscard]] bool Signed(int64_t& v) {
    uint64_t u;
    if (!Varint(u)) return false;
    v = UnZigZag(u);
    return true;
  }
  [[nodiscard]] bool Double(double& v) {
    uint64_t bits;
    if (!Varint(bits)) return false;
    v = std::bit_cast<double>(bits);
    return true;
  }
  [[nodiscard]] bool Bool(bool& v) {
    uint64_t u;
    if (!Varint(u) || u > 1) return false;
    v = u == 1;
    return true;
  }
  // A view into the input.
  [[nodiscard]] bool String(std::string_view& out) {
    uint64_t n;
    if (!Varint(n) || n > left()) return false;
    out = {p_, static_cast<size_t>(n)};
    p_ += n;
    return true;
  }
  [[nodiscard]] bool String(std::string& out) {
    std::string_view view;
    if (!String(view)) return false;
    out = view;
    return true;
  }
  [[nodiscard]] bool Fixed64(uint64_t& v) {
    if (left() < 8) return false;
    std::memcpy(&v, p_, 8);
    p_ += 8;
    return true;
  }

 private:
  const char* p_;
  const char* end_;
};

}  // namespace uopd
