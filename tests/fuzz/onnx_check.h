// SPDX-License-Identifier: MIT
// What must be true of every model that the reader of ONNX files accepts, and of every error.
#pragma once
#include <string>
#include <string_view>

namespace uopd::test {

struct OnnxVerdict {
  bool accepted = false;
  std::string wrong;    // what the reader did wrong; empty: nothing
  std::string message;  // why it refused the model
};

// Reads a model, and the contents of its tensors.
OnnxVerdict CheckOnnx(std::string_view file);

}  // namespace uopd::test
