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

}  // namespace uopd
