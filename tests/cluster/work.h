// SPDX-License-Identifier: MIT
// The kernels of the show: each is a graph of its own, with inputs and the bytes that every answer
// must have.
#pragma once
#include <string>
#include <vector>

namespace uopd::cluster {

struct Work {
  std::string graph;                // wire form; slot 0 is the result, the others are inputs
  std::vector<std::string> inputs;  // of slots 1 and 2
  std::string result;
};

// Kernel number `i`: sums of small integers, so that every order of the sums gives the same bits.
Work MakeWork(int i);

}  // namespace uopd::cluster
