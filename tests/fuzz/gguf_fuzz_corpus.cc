// SPDX-License-Identifier: MIT
// Writes the seeds of gguf_fuzz into a folder: GGUF headers with values of every type.
#include <cstdio>
#include <filesystem>
#include <fstream>

#include "core/base/text.h"
#include "tests/fuzz/gguf_seeds.h"

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  const std::filesystem::path folder = argv[1];
  std::filesystem::create_directories(folder);
  std::mt19937_64 random(3);
  for (int i = 0; i < 200; ++i) {
    const uopd::test::GgufSeed seed = uopd::test::RandomGguf(random);
    const char behind[] = {static_cast<char>(seed.data), static_cast<char>(seed.data >> 8)};
    std::ofstream out(folder / std::to_string(i), std::ios::binary);
    out.write(behind, sizeof(behind)) << seed.head.bytes;
    if (!out.flush()) {
      std::fprintf(stderr, "gguf_fuzz_corpus: cannot write to %s\n", argv[1]);
      return 1;
    }
  }
  return 0;
}
