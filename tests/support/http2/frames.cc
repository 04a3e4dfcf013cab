// SPDX-License-Identifier: MIT
#include "tests/support/http2/frames.h"

namespace uopd::test::http2 {
namespace {

void AppendBigEndian(std::string& out, uint32_t value, int bytes) {
  for (int i = bytes - 1; i >= 0; --i) out += static_cast<char>(value >> (8 * i));
}

// A length or index of HPACK: what does not fit into the first byte's `bits` follows in groups of
// seven bits.
void AppendHpack(std::string& out, uint8_t first, int bits, size_t value) {
  const size_t limit = (size_t{1} << bits) - 1;
  if (value < limit) {
    out += static_cast<char>(first | value);
    return;
  }
  out += static_cast<char>(first | limit);
  for (value -= limit; value >= 128; value >>= 7) out += static_cast<char>(128 | (value & 127));
  out += static_cast<char>(value);
}

void AppendText(std::string& out, std::string_view text) {
  AppendHpack(out, 0, 7, text.size());
  out += text;
}

}  // namespace

std::string Frame(Type type, uint8_t flags, uint32_t stream, std::string_view payload) {
  std::string out;
  out.reserve(9 + payload.size());
  AppendBigEndian(out, static_cast<uint32_t>(payload.size()), 3);
  out += static_cast<char>(type);
  out += static_cast<char>(flags);
  AppendBigEndian(out, stream, 4);
  out += payload;
  return out;
}

std::string Number(uint32_t value) {
  std::string out;
  AppendBigEndian(out, value, 4);
  return out;
}

std::string Greeting() { return "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + Frame(Type::kSettings, 0, 0); }

std::string Field(std::string_view name, std::string_view value) {
  std::string out(1, '\0');
  AppendText(out, name);
  AppendText(out, value);
  return out;
}

std::string CallFields(std::string_view method) {
  return Field(":method", "POST") + Field(":scheme", "http") + Field(":path", method) +
         Field(":authority", "test") + Field("te", "trailers") +
         Field("content-type", "application/grpc");
}

}  // namespace uopd::test::http2
