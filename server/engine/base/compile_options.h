// SPDX-License-Identifier: MIT
// Switches of a request that change what is compiled. Plain data.
#pragma once
#include <string>

namespace uopd::engine {

struct CompileOptions {
  static constexpr int kMaxBeam = 64;

  bool noopt = false;
  bool fast_math = false;
  int beam = 0;                    // width of the search that tunes the kernels; 0: none
  bool ignore_beam_cache = false;  // tunes also what has been tuned before
  bool operator==(const CompileOptions&) const = default;

  std::string Text() const;        // all of them
  std::string KernelText() const;  // those that decide the code of a kernel with given opts
};

}  // namespace uopd::engine
