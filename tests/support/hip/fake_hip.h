// SPDX-License-Identifier: MIT
// AMD's HIP over the fake of CUDA (tests/support/cuda/fake_cuda.h): as strict, with HIP's
// signatures. Calls fail and are counted under the names of CUDA's functions. A launch must end its
// list of arguments as HIP has it, and adds no shared memory. Thread-safe.
#pragma once
#include <memory>
#include <string>

#include "devices/api/compiler.h"
#include "devices/hip/hip_driver.h"
#include "devices/hip/hip_symbols.h"
#include "tests/support/cuda/fake_cuda.h"

namespace uopd::tests {

class FakeHip {
 public:
  // Every device has a context from now on, as with HIP. REQUIRES: `cuda` is the fake that exists.
  explicit FakeHip(FakeCuda& cuda);

  static devices::hip::HipApi Api();
  // A driver over this fake that stays until the process ends. A thread of a device may give a
  // context back after the last object of the chip is gone, and contexts of HIP leave no trace of
  // that to wait for.
  static devices::hip::HipDriver& LastingDriver();
  // Makes code objects for this fake of texts for FakeCuda.
  static std::shared_ptr<const devices::Compiler> TextCompiler();
};

}  // namespace uopd::tests
