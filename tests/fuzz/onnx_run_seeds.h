// SPDX-License-Identifier: MIT
// ONNX models that the runner gets far with: for fuzzers.
#pragma once
#include <random>
#include <vector>

#include "tests/support/onnx/wire_tree.h"

namespace uopd::test {

// The fields of a model without inputs: nodes of ops with inputs and attributes that fit them in
// kind. Most of the numbers are small, some are those at which sizes stop being sizes.
std::vector<WireTree> RandomOnnxProgram(std::mt19937_64& random);

}  // namespace uopd::test
