// SPDX-License-Identifier: MIT
#include "core/base/text.h"

#include <charconv>

namespace uopd {

void AppendPart(std::string& out, double v) {
  char buffer[32];
  auto [end, error] = std::to_chars(buffer, buffer + sizeof buffer, v);
  out.append(buffer, end);
}

void AppendPart(std::string& out, __int128 v) {
  char buffer[48];
  char* p = buffer + sizeof buffer;
  unsigned __int128 u =
      v < 0 ? -static_cast<unsigned __int128>(v) : static_cast<unsigned __int128>(v);
  do {
    *--p = static_cast<char>('0' + static_cast<int>(u % 10));
    u /= 10;
  } while (u != 0);
  if (v < 0) *--p = '-';
  out.append(p, buffer + sizeof buffer);
}

std::string WithoutControls(std::string_view text, std::string_view kept) {
  constexpr std::string_view kHex = "0123456789abcdef";
  std::string out;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if ((byte >= 0x20 && byte != 0x7f) || kept.find(c) != std::string_view::npos) {
      out.push_back(c);
    } else {
      Append(out, "\\x", kHex[byte >> 4], kHex[byte & 15]);
    }
  }
  return out;
}

}  // namespace uopd
