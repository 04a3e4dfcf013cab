// SPDX-License-Identifier: MIT
#include "devices/opencl/opencl_symbols.h"

#include <cstdlib>
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
    // By default ("loopvec") PoCL 3.1 gives kernels that keep bools in local memory wrong values;
    // the interpreted device and its other ways compute them right.
    setenv("POCL_WORK_GROUP_METHOD", "auto",
           0);  // NOLINT(concurrency-mt-unsafe): before the library is there
    UOPD_ASSIGN(const OpenClApi api, LoadOpenCl({"libOpenCL.so.1"}));
    shared = std::make_unique<OpenClApi>(api).release();
  }
  return shared;
}

}  // namespace uopd::devices::opencl
