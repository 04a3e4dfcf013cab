// SPDX-License-Identifier: MIT
// Site: a place in the caller's code, which the messages of errors name.
#pragma once
#include <cstdint>

namespace uopd::client {

// Site::current() as a default argument is the place of the call. `file` lives as long as the
// process: a literal, or a name that a binding keeps for ever.
struct Site {
  const char* file = "";
  uint32_t line = 0;

  static constexpr Site current(const char* file = __builtin_FILE(),
                                uint32_t line = __builtin_LINE()) {
    return {file, line};
  }
};

}  // namespace uopd::client
