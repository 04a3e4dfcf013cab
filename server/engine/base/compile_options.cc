// SPDX-License-Identifier: MIT
#include "server/engine/base/compile_options.h"

#include "core/base/text.h"

namespace uopd::engine {

DtypeNumberSet CompileOptions::allowed_products() const {
  DtypeNumberSet out;
  if (allow_bf16) out.Add(DtypeNumber::BF16);
  if (allow_f16) out.Add(DtypeNumber::F16);
  if (allow_tf32) out.Add(DtypeNumber::TF32);
  return out;
}

std::string CompileOptions::KernelText() const {
  return Cat("noopt=", noopt ? 1 : 0, " fast_math=", fast_math ? 1 : 0);
}

std::string CompileOptions::Text() const {
  return Cat(KernelText(), " allow_bf16=", allow_bf16 ? 1 : 0, " allow_f16=", allow_f16 ? 1 : 0,
             " allow_tf32=", allow_tf32 ? 1 : 0, " reproducible=", reproducible ? 1 : 0,
             " beam=", beam, " ignore_beam_cache=", ignore_beam_cache ? 1 : 0,
             " cache_level=", cache_level);
}

}  // namespace uopd::engine
