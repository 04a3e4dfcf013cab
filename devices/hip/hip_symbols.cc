// SPDX-License-Identifier: MIT
#include "devices/hip/hip_symbols.h"

namespace uopd::devices::hip {

absl::StatusOr<HipApi> LoadHip(const std::vector<std::string>& files) {
  UOPD_ASSIGN(const dl::Library library, dl::Library::Open(files));
  HipApi api;
#define UOPD_SYM UOPD_DL_REQUIRED
#define UOPD_SYM_OPT UOPD_DL_OPTIONAL
  const std::vector<dl::SymbolSlot> slots = {
#include "devices/hip/hip_symbols.def"
  };
#undef UOPD_SYM
#undef UOPD_SYM_OPT
  UOPD_TRY(dl::LoadSymbols(library, slots));
  return api;
}

}  // namespace uopd::devices::hip
