// SPDX-License-Identifier: MIT
// Names from files in messages. Internal to the library.
#pragma once
#include <string>
#include <string_view>

namespace uopd::client {

// A name from a file as part of a message: in backquotes, cut behind 80 bytes, and with a `?` in
// place of every control character and of every byte that is not part of a UTF-8 character.
std::string ShownName(std::string_view name);

}  // namespace uopd::client
