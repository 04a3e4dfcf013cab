// SPDX-License-Identifier: MIT
#include "devices/opencl/opencl_symbols.h"

#include <memory>
#include <vector>

#include "core/base/mutex.h"
#include "devices/dl/symbol_table.h"

namespace uopd::devices::opencl {

absl::StatusOr<OpenClApi> LoadOpenCl(const std::vector<std::string>& files) {
  UOPD_ASSIGN(dl::Library library, dl::Library::Open(files));
  OpenClApi api;
  const std::vector<dl::SymbolSlot> slots = {
#define UOPD_SYM UOPD_DL_REQUIRED
#include "devices/opencl/opencl_symbols.def"
#undef UOPD_SYM
  };
  UOPD_TRY(dl::LoadSymbols(library, slots));
  return api;
}

absl::StatusOr<const OpenClApi*> SharedOpenCl() {
  static Mutex mu;
  static const OpenClApi* shared = nullptr;  // guarded by mu; never freed, as the library
  MutexLock lock(mu);
  if (shared == nullptr) {
    UOPD_ASSIGN(const OpenClApi api, LoadOpenCl({"libOpenCL.so.1"}));
    shared = std::make_unique<OpenClApi>(api).release();
  }
  return shared;
}

}  // namespace uopd::devices::opencl
