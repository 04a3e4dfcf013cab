// SPDX-License-Identifier: MIT
// The rule for messages of errors about files that nobody trusts. Fuzz tests check every message
// of every reader by it.
#pragma once
#include <algorithm>
#include <string>

#include "client/cpp/state/shown_name.h"
#include "core/base/text.h"

namespace uopd::test {

// UTF-8 without controls, where nothing of it would be replaced as a name; and no full stop at the
// end.
inline bool IsCleanMessage(const std::string& message) {
  for (size_t at = 0; at < message.size();) {
    // Names are cut behind 80 bytes, so parts are looked at; a part ends before a character.
    size_t end = std::min(message.size(), at + 76);
    while (end < message.size() && (message[end] & 0xc0) == 0x80) --end;
    if (end <= at) return false;
    const std::string part = message.substr(at, end - at);
    if (client::ShownName(part) != Cat("`", part, "`")) return false;
    at = end;
  }
  return !message.empty() && message.back() != '.';
}

}  // namespace uopd::test
