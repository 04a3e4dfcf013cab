// SPDX-License-Identifier: MIT
#include "server/engine/base/compile_options.h"

#include "core/base/text.h"

namespace uopd::engine {

std::string CompileOptions::KernelText() const {
  return Cat("noopt=", noopt ? 1 : 0, " fast_math=", fast_math ? 1 : 0);
}

std::string CompileOptions::Text() const {
  return Cat(KernelText(), " beam=", beam, " ignore_beam_cache=", ignore_beam_cache ? 1 : 0,
             " cache_level=", cache_level);
}

}  // namespace uopd::engine
