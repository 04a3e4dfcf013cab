// SPDX-License-Identifier: MIT
// libFuzzer target: any bytes as the beginning of a GGUF file. The first two bytes say how many
// bytes the file has behind the others. What is accepted must be within the file.
#include <cstdint>
#include <cstdio>
#include <string_view>

#include "core/base/status.h"
#include "tests/fuzz/gguf_check.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 2) return 0;
  const std::string_view start(reinterpret_cast<const char*>(data) + 2, size - 2);
  const uint64_t behind = data[0] + 256u * data[1];
  const uopd::test::GgufVerdict verdict = uopd::test::CheckGguf(start, start.size() + behind);
  if (!verdict.wrong.empty()) std::fprintf(stderr, "%s\n", verdict.wrong.c_str());
  UOPD_CHECK(verdict.wrong.empty());
  return 0;
}
