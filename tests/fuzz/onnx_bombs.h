// SPDX-License-Identifier: MIT
// Small ONNX files that would cost much if nothing stopped them.
#pragma once
#include <string>
#include <string_view>
#include <vector>

namespace uopd::test {

struct OnnxBomb {
  std::string name, file;
  std::string_view says = "";  // a part of the message; empty: the model may run
};
std::vector<OnnxBomb> OnnxBombs();

}  // namespace uopd::test
