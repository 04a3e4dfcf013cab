// SPDX-License-Identifier: MIT
// What must be true of every header that the reader of GGUF files accepts, and of every error.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

namespace uopd::test {

struct GgufVerdict {
  bool accepted = false;
  std::string wrong;  // what the reader did wrong; empty: nothing
};

// Reads the header of a file of `file_bytes` bytes that begins with `start`, and all its values.
GgufVerdict CheckGguf(std::string_view start, uint64_t file_bytes);

}  // namespace uopd::test
