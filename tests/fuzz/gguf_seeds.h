// SPDX-License-Identifier: MIT
// GGUF files for fuzzers: right ones at random, and mutations of them.
#pragma once
#include <cstdint>
#include <random>

#include "tests/support/gguf/gguf_bytes.h"

namespace uopd::test {

struct GgufSeed {
  GgufBytes head;
  uint64_t data = 0;  // bytes that the file has behind the header
};

// A file with values of every type and some tensors, which the reader accepts.
GgufSeed RandomGguf(std::mt19937_64& random);
// Changes some numbers, bytes, or parts of a file.
void MutateGguf(GgufSeed& file, std::mt19937_64& random);

}  // namespace uopd::test
