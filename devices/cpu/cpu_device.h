// SPDX-License-Identifier: MIT
// CPU: kernels are LLVM IR text, compiled and linked into this process.
//
// Kernel ABI: `define void @ENTRY(ptr %buffers, ptr %vars, i64 %thread)` with %buffers an array of
// pointers, %vars an array of i64 and %thread in [0, grid[0]). A launch calls the entry once for
// every thread, in parallel on the device's own threads; grid[0] == 1 runs on the caller's. There
// are no blocks and no shared memory. What a background thread launches (thread_priority.h) runs on
// threads of its own, as many as the others and of its priority. %buffers[-1] is the address of an
// i32 that is not 0 once the launch is to end (StopFlag): kernels that run long look there now and
// then and return. Between threads of a launch the device looks itself. Streams run inline. The
// floating-point environment is the caller's, which is IEEE's default.
#pragma once
#include <chrono>
#include <memory>
#include <optional>
#include <string>

#include "devices/api/host/host_heap.h"
#include "devices/cpu/cpu_compiler.h"
#include "devices/cpu/cpu_jit.h"
#include "devices/cpu/thread_pool.h"

namespace uopd::devices::cpu {

struct CpuOptions {
  int index = 0;                        // n of "CPU:n"
  int threads = 0;                      // 0: as many as this process may run on
  std::chrono::microseconds spin{30};   // how long idle threads look for work before they park
  std::optional<std::string> features;  // instead of the processor's; "" is plain x86-64
  HostHeap::Options memory;
};

class CpuDevice final : public Device {
 public:
  static absl::StatusOr<std::shared_ptr<CpuDevice>> Open(const CpuOptions& options);

  const Compiler& compiler() const override { return *compiler_; }
  absl::Status status() const override { return absl::OkStatus(); }
  MemoryStats memory() const override { return heap_.stats(); }
  absl::StatusOr<std::shared_ptr<Buffer>> Allocate(size_t bytes, MemoryKind kind) override;
  absl::StatusOr<std::shared_ptr<Executable>> Load(const Program& program) override;
  absl::StatusOr<std::unique_ptr<Stream>> NewStream() override;

  // Those for what the calling thread launches.
  ThreadPool& threads() UOPD_EXCLUDES(background_mu_);

 private:
  CpuDevice(DeviceInfo info, Target target, const CpuOptions& options,
            std::unique_ptr<CpuCompiler> compiler, std::unique_ptr<CpuJit> jit);

  HostHeap heap_;
  const std::unique_ptr<CpuCompiler> compiler_;
  const std::unique_ptr<CpuJit> jit_;
  const std::chrono::microseconds spin_;
  ThreadPool threads_;
  Mutex background_mu_;
  std::unique_ptr<ThreadPool> background_ UOPD_GUARDED_BY(background_mu_);  // made when needed
};

}  // namespace uopd::devices::cpu
