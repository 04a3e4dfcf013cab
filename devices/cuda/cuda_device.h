// SPDX-License-Identifier: MIT
// CUDA: devices of NVIDIA through the driver's library, which is opened at run time.
//
// The text of kernels is CUDA C++ if libnvrtc is found. Otherwise it is PTX, which uopd-ptxc compiles
// if that program is there, and else the driver. Objects are cubins. The
// kernel ABI is in cuda_executable.h. Streams are asynchronous. The device is lost when a kernel
// breaks the context, or does not stop (stop_words.h): status() says why, and the registry opens the
// device again. Owned by shared_ptr; thread-safe.
#pragma once
#include <chrono>
#include <memory>

#include "devices/api/device.h"
#include "devices/cuda/cuda_memory.h"
#include "devices/cuda/cuda_target.h"
#include "devices/cuda/nvrtc_compiler.h"
#include "devices/cuda/stop_words.h"

namespace uopd::devices::cuda {

struct CudaOptions {
  int index = 0;                  // n of "CUDA:n"
  size_t memory_limit_bytes = 0;  // 0: nine tenths of the device's memory
  bool poison = false;
  bool ptx = false;                              // take PTX, even if libnvrtc is there
  bool graphs = true;                            // recorded sequences are CUDA graphs
  std::chrono::milliseconds stop_grace{10'000};  // for a kernel that was told to stop
  CudaDriver* driver = nullptr;                  // null: the one of the process
  const NvrtcApi* nvrtc = nullptr;               // null: the library's
  std::string ptxc;                              // path of uopd-ptxc; "": PtxcProgram()
};

class CudaDevice final : public Device {
 public:
  // UNAVAILABLE: no driver, no such device, or a lost device that still works. Else the driver's
  // status.
  static absl::StatusOr<std::shared_ptr<CudaDevice>> Open(const CudaOptions& options);

  const Compiler& compiler() const override { return *compiler_; }
  absl::Status status() const override { return context_->status(); }
  MemoryStats memory() const override { return heap_.stats(); }
  absl::StatusOr<std::shared_ptr<Buffer>> Allocate(size_t bytes, MemoryKind kind) override;
  absl::StatusOr<std::shared_ptr<Executable>> Load(const KernelCode& kernel_code) override;
  absl::StatusOr<std::unique_ptr<Stream>> NewStream() override;
  absl::StatusOr<std::shared_ptr<Semaphore>> NewSemaphore() override;

 protected:
  absl::StatusOr<std::shared_ptr<const RecordedProgram>> DoRecord(
      int buffers, std::vector<RecordedLaunch> launches) override;

 private:
  CudaDevice(DeviceInfo info, Target target, std::shared_ptr<CudaContext> context,
             std::shared_ptr<const Compiler> compiler, const CudaHeap::Options& memory,
             const CudaOptions& options);

  const std::shared_ptr<CudaContext> context_;
  const std::shared_ptr<const Compiler> compiler_;
  const bool graphs_;
  CudaHeap heap_;
  const std::shared_ptr<StopWords> words_;
};

// Number of devices: 0 without a driver.
int CountCudaDevices();
// A compiler that needs no GPU, for a toolchain of a CUDA device. UNIMPLEMENTED: the toolchain needs
// the device. Other errors as NvrtcCompiler.
absl::StatusOr<std::shared_ptr<const Compiler>> CudaCompilerFor(std::string_view toolchain);

}  // namespace uopd::devices::cuda
