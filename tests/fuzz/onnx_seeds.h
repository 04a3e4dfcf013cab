// SPDX-License-Identifier: MIT
// ONNX files for fuzzers: right ones at random, and mutations of them.
#pragma once
#include <random>
#include <string>
#include <vector>

#include "tests/support/onnx/wire_tree.h"

namespace uopd::test {

// The fields of a model with nodes, attributes and tensors of every kind, which the reader accepts.
std::vector<WireTree> RandomOnnx(std::mt19937_64& random);
// Changes some fields of a model, and then some bytes. Returns the file.
std::string MutateOnnx(std::vector<WireTree> model, std::mt19937_64& random);

}  // namespace uopd::test
