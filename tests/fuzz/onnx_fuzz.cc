// SPDX-License-Identifier: MIT
// libFuzzer target: any bytes as an ONNX file. What is accepted must be within the file.
#include <cstdint>
#include <cstdio>
#include <string_view>

#include "core/base/status.h"
#include "tests/fuzz/onnx_check.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const uopd::test::OnnxVerdict verdict =
      uopd::test::CheckOnnx({reinterpret_cast<const char*>(data), size});
  if (!verdict.wrong.empty()) std::fprintf(stderr, "%s\n", verdict.wrong.c_str());
  UOPD_CHECK(verdict.wrong.empty());
  return 0;
}
