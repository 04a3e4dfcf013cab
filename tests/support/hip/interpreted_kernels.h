// SPDX-License-Identifier: MIT
// Kernels for the fake of HIP that compute: an AMD device with this compiler and target takes the
// linear kernels of INTERP, and each launch interprets one over the fake's memory. So the way from
// an upload to an answer is that of a GPU's driver, with real results. Thread-safe.
#pragma once
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "core/base/mutex.h"
#include "core/base/target/target.h"
#include "devices/api/compiler.h"
#include "devices/interp/interp_device.h"
#include "tests/support/cuda/fake_cuda.h"

namespace uopd::tests {

class InterpretedKernels final : public devices::Compiler {
 public:
  // For the devices of `fake`, which has none yet, and which must not outlive the object.
  explicit InterpretedKernels(FakeCuda& fake);

  static Target TargetOfDevices();
  absl::StatusOr<std::string> Compile(std::string_view source) const override;
  // What the interpreter said of launches that failed.
  std::vector<std::string> Failures() const UOPD_EXCLUDES(mu_);

 private:
  struct Kernel {
    devices::interp::InterpCode code;
    size_t buffers = 0;
  };
  bool Run(const FakeCuda::HostLaunch& launch) UOPD_EXCLUDES(mu_);

  const devices::interp::InterpCompiler interpreter_;
  mutable Mutex mu_;
  mutable std::map<std::string, std::shared_ptr<const Kernel>> kernels_
      UOPD_GUARDED_BY(mu_);  // by id
  std::vector<std::string> failures_ UOPD_GUARDED_BY(mu_);
};

}  // namespace uopd::tests
