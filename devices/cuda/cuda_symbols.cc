// SPDX-License-Identifier: MIT
#include "devices/cuda/cuda_symbols.h"

namespace uopd::devices::cuda {

absl::StatusOr<CudaApi> LoadCuda(const std::vector<std::string>& files) {
  UOPD_ASSIGN(const dl::Library library, dl::Library::Open(files));
  CudaApi api;
#define UOPD_SYM UOPD_DL_REQUIRED
#define UOPD_SYM_OPT UOPD_DL_OPTIONAL
  const std::vector<dl::SymbolSlot> slots = {
#include "devices/cuda/cuda_symbols.def"
  };
#undef UOPD_SYM
#undef UOPD_SYM_OPT
  UOPD_TRY(dl::LoadSymbols(library, slots));
  return api;
}

}  // namespace uopd::devices::cuda
