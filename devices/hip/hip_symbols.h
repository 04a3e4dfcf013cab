// SPDX-License-Identifier: MIT
// The functions of AMD's HIP as a struct of pointers. The tests fill it with functions of their own. Plain data.
#pragma once
#include <string>
#include <vector>

#include "devices/dl/symbol_table.h"
#include "devices/hip/hip_types.h"

namespace uopd::devices::hip {

struct HipApi {
#define UOPD_SYM UOPD_DL_POINTER
#define UOPD_SYM_OPT UOPD_DL_POINTER
#include "devices/hip/hip_symbols.def"
#undef UOPD_SYM
#undef UOPD_SYM_OPT
};

// Opens the first of `files` that loads. UNAVAILABLE names what is missing: the library or the
// symbol.
absl::StatusOr<HipApi> LoadHip(const std::vector<std::string>& files = {
                                   "libamdhip64.so.7", "libamdhip64.so.6", "libamdhip64.so.5",
                                   "libamdhip64.so"});

}  // namespace uopd::devices::hip
