// SPDX-License-Identifier: MIT
// Options of a request: what is compiled, and which stores of the cache are used. Plain data.
#pragma once
#include <string>

#include "core/base/target/dtype_number.h"

namespace uopd::engine {

struct CompileOptions {
  static constexpr int kMaxBeam = 64;
  static constexpr int kMaxCacheLevel = 2;

  bool noopt = false;
  bool fast_math = false;
  // Operands of f32 products may be rounded to these dtypes
  // (core/schedule/prepare/round_products.h). Decided by the schedule: the kernel graphs then have
  // the casts.
  bool allow_bf16 = false, allow_f16 = false, allow_tf32 = false;
  // The bits of the results depend on nothing that was tuned, nor on what earlier runs have kept.
  bool reproducible = false;
  int beam = 0;  // beam width of the search that tunes the kernels; 0: no tuning
  // Also tunes what has been tuned before.
  bool ignore_beam_cache = false;
  // CACHELEVEL: what the cache on disk is read and written for. 0: nothing. 1: the results of
  // tuning. 2: everything.
  int cache_level = kMaxCacheLevel;
  bool operator==(const CompileOptions&) const = default;

  bool caches_tuning() const { return cache_level >= 1; }
  bool caches_compiles() const { return cache_level >= 2; }

  DtypeNumberSet allowed_products() const;

  std::string Text() const;        // all options
  std::string KernelText() const;  // the options that decide the code of a kernel with given opts
};

}  // namespace uopd::engine
