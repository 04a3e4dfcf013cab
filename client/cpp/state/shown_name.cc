// SPDX-License-Identifier: MIT
#include "client/cpp/state/shown_name.h"

#include <cstdint>

namespace uopd::client {
namespace {

constexpr size_t kMostShown = 80;  // bytes of a name

// How many bytes the UTF-8 character takes that `text` begins with; 0: there is none.
size_t CharacterBytes(std::string_view text) {
  const auto first = static_cast<unsigned char>(text[0]);
  const size_t bytes = first < 0x80                    ? 1
                       : first >= 0xc2 && first < 0xe0 ? 2
                       : first >= 0xe0 && first < 0xf0 ? 3
                       : first >= 0xf0 && first < 0xf5 ? 4
                                                       : 0;
  if (bytes > text.size()) return 0;
  if (bytes < 2) return bytes;
  uint32_t code = first & (0x7fu >> bytes);
  for (size_t i = 1; i < bytes; ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    if ((byte & 0xc0) != 0x80) return 0;
    code = code << 6 | (byte & 0x3f);
  }
  // Longer than need be, a half of a pair of UTF-16, beyond the last character.
  if (bytes == 3 && (code < 0x800 || (code >= 0xd800 && code < 0xe000))) return 0;
  if (bytes == 4 && (code < 0x10000 || code > 0x10ffff)) return 0;
  return bytes;
}

// U+0000 to U+001F, and U+007F to U+009F.
bool IsControl(std::string_view character) {
  const auto first = static_cast<unsigned char>(character[0]);
  return first < 0x20 || first == 0x7f ||
         (first == 0xc2 && static_cast<unsigned char>(character[1]) < 0xa0);
}

}  // namespace

std::string ShownName(std::string_view name) {
  std::string out = "`";
  for (size_t at = 0; at < name.size();) {
    const size_t bytes = CharacterBytes(name.substr(at));
    const std::string_view character = name.substr(at, bytes == 0 ? 1 : bytes);
    at += character.size();
    if (at > kMostShown) return out + "...`";
    if (bytes == 0 || IsControl(character))
      out += '?';
    else
      out += character;
  }
  return out + "`";
}

}  // namespace uopd::client
