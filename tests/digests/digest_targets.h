// SPDX-License-Identifier: MIT
// The targets whose kernels are compared: equal on every machine, unlike what a driver finds.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "core/base/target/target.h"

namespace uopd::digests {

struct DigestTarget {
  std::string_view name;
  Target target;
  std::vector<CodeFormat>
      formats;  // the languages in which a driver of the target asks for kernels
};

// zen4, zen5, spr (Sapphire Rapids), spr_without_amx, sm_80, sm_90a, gfx90a, gfx942, gfx1100,
// gfx1201, opencl.
std::vector<DigestTarget> DigestTargets();

}  // namespace uopd::digests
