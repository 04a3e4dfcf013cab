// SPDX-License-Identifier: MIT
// The functions of the CUDA driver as a struct of pointers. The tests fill it with functions of
// their own. Plain data.
#pragma once
#include <string>
#include <vector>

#include "devices/cuda/cuda_types.h"
#include "devices/dl/symbol_table.h"

namespace uopd::devices::cuda {

struct CudaApi {
#define UOPD_SYM UOPD_DL_POINTER
#define UOPD_SYM_OPT UOPD_DL_POINTER
#include "devices/cuda/cuda_symbols.def"
#undef UOPD_SYM
#undef UOPD_SYM_OPT
};

// Opens the first of `files` that loads. UNAVAILABLE names what is missing: the library or the
// symbol.
absl::StatusOr<CudaApi> LoadCuda(const std::vector<std::string>& files = {"libcuda.so.1"});

}  // namespace uopd::devices::cuda
