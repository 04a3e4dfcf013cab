// SPDX-License-Identifier: MIT
// The fake driver as a library libcuda.so.1, for daemons that a test starts with LD_LIBRARY_PATH.
//
// The file that the variable UOPD_FAKE_CUDA_FAIL names, when it appears, makes the next upload fail
// with CUDA_ERROR_ILLEGAL_ADDRESS, as after a kernel that broke the context. The library then
// removes the file.
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <string>
#include <thread>

#include "tests/support/cuda/fake_cuda.h"

// Each function of the library jumps to that of the fake, with all arguments where they are.
#define UOPD_SYM(name, ...)                                              \
  extern "C" __attribute__((visibility("hidden"))) void* slot_##name;    \
  void* slot_##name = nullptr;                                           \
  extern "C" __attribute__((naked, visibility("default"))) void name() { \
    asm("jmp *slot_" #name "(%rip)");                                    \
  }
#define UOPD_SYM_OPT UOPD_SYM
#include "devices/cuda/cuda_symbols.def"
#undef UOPD_SYM
#undef UOPD_SYM_OPT

namespace {

using uopd::tests::FakeCuda;

void FailOnRequest(FakeCuda& fake, const std::string& file) {
  for (;;) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    if (unlink(file.c_str()) == 0)
      fake.Fail("cuMemcpyHtoDAsync_v2", uopd::devices::cuda::kIllegalAddress);
  }
}

__attribute__((constructor)) void Load() {
  static FakeCuda& fake = *new FakeCuda();  // never freed: the process may end at any time
  const uopd::devices::cuda::CudaApi api = FakeCuda::Api();
#define UOPD_SYM(name, ...) slot_##name = reinterpret_cast<void*>(api.name);
#define UOPD_SYM_OPT UOPD_SYM
#include "devices/cuda/cuda_symbols.def"
#undef UOPD_SYM
#undef UOPD_SYM_OPT
  if (const char* file = std::getenv("UOPD_FAKE_CUDA_FAIL"))
    std::thread([path = std::string(file)] { FailOnRequest(fake, path); }).detach();
}

}  // namespace
