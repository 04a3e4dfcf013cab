// SPDX-License-Identifier: MIT
// Switches of a request that change what is compiled, and from where. Plain data.
#pragma once
#include <string>

namespace uopd::engine {

struct CompileOptions {
  static constexpr int kMaxBeam = 64;
  static constexpr int kMaxCacheLevel = 2;

  bool noopt = false;
  bool fast_math = false;
  int beam = 0;                    // width of the search that tunes the kernels; 0: none
  bool ignore_beam_cache = false;  // tunes also what has been tuned before
  // CACHELEVEL: what the cache on disk is read and written for. 0: nothing; 1: what tuning found;
  // 2: everything.
  int cache_level = kMaxCacheLevel;
  bool operator==(const CompileOptions&) const = default;

  bool caches_tuning() const { return cache_level >= 1; }
  bool caches_compiles() const { return cache_level >= 2; }

  std::string Text() const;        // all of them
  std::string KernelText() const;  // those that decide the code of a kernel with given opts
};

}  // namespace uopd::engine
