// SPDX-License-Identifier: MIT
// A device behind a driver like CUDA's. Streams are asynchronous, and memory is the chip's or
// pinned. The device is lost when a kernel breaks the context, or does not stop (stop_words.h):
// status() says why, and the registry opens the device again. The kernel ABI is in
// gpu_executable.h.
//
// A driver makes one with what it knows of the chip, and a compiler. Owned by shared_ptr;
// thread-safe.
#pragma once
#include <chrono>
#include <memory>

#include "devices/api/device.h"
#include "devices/gpu/gpu_memory.h"
#include "devices/gpu/stop_words.h"

namespace uopd::devices::gpu {

class GpuDevice : public Device {
 public:
  struct Options {
    size_t memory_limit_bytes = 0;  // 0: nine tenths of the device's memory
    MemoryPattern pattern;
    bool graphs = true;                            // recorded sequences are graphs of the driver
    std::chrono::milliseconds stop_grace{10'000};  // for a kernel that was told to stop
  };
  // The limit of memory of a device that has `total_bytes`.
  static size_t LimitOf(const Options& options, size_t total_bytes);

  const Compiler& compiler() const override { return *compiler_; }
  absl::Status status() const override { return context_->status(); }
  MemoryStats memory() const override { return heap_.stats(); }
  absl::StatusOr<std::shared_ptr<Buffer>> Allocate(size_t bytes, MemoryKind kind) override;
  absl::StatusOr<std::shared_ptr<Executable>> Load(const KernelCode& kernel_code) override;
  absl::StatusOr<std::unique_ptr<Stream>> NewStream() override;
  absl::StatusOr<std::shared_ptr<Semaphore>> NewSemaphore() override;

 protected:
  GpuDevice(DeviceInfo info, Target target, std::shared_ptr<GpuContext> context,
            std::shared_ptr<const Compiler> compiler, size_t limit_bytes, const Options& options);
  absl::StatusOr<std::shared_ptr<const RecordedProgram>> DoRecord(
      int buffers, std::vector<RecordedLaunch> launches) override;

 private:
  const std::shared_ptr<GpuContext> context_;
  const std::shared_ptr<const Compiler> compiler_;
  const bool graphs_;
  GpuHeap heap_;
  const std::shared_ptr<StopWords> words_;
};

}  // namespace uopd::devices::gpu
