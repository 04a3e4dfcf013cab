// SPDX-License-Identifier: MIT
// Writes the seeds of onnx_fuzz into a folder: models with fields of every kind.
#include <cstdio>
#include <filesystem>
#include <fstream>

#include "tests/fuzz/onnx_seeds.h"

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  const std::filesystem::path folder = argv[1];
  std::filesystem::create_directories(folder);
  std::mt19937_64 random(3);
  for (int i = 0; i < 300; ++i) {
    std::ofstream out(folder / std::to_string(i), std::ios::binary);
    out << uopd::test::Written(uopd::test::RandomOnnx(random));
    if (!out.flush()) {
      std::fprintf(stderr, "onnx_fuzz_corpus: cannot write to %s\n", argv[1]);
      return 1;
    }
  }
  return 0;
}
