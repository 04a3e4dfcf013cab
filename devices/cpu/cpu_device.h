// SPDX-License-Identifier: MIT
// CPU: kernels are LLVM IR text, compiled and linked into this process.
//
// Kernel ABI: `define void @ENTRY(ptr %buffers, ptr %vars, i64 %thread)`. %buffers is an array of
// pointers, %vars is an array of i64, and %thread is in [0, grid[0]). A launch calls the entry once
// for every thread, in parallel on the device's own threads. With grid[0] == 1 the entry runs on
// the caller's thread. There are no blocks. The floating-point environment is the caller's, which
// is IEEE's default.
//
// Threads begin in the order of their numbers, and a thread that has begun runs to its end on one
// thread of the device. So a thread may wait for threads with lower numbers. %buffers[-2] is the
// address of `shared_bytes` bytes that the threads of the launch share; they are zeros when it
// begins.
//
// What a thread of low priority launches (thread_priority.h) runs on separate threads: as many as
// the others, with the same low priority.
//
// %buffers[-1] is the address of an i32 that is not 0 once the launch is to end (StopFlag). Kernels
// that run long read it now and then, and return. Between two threads of a launch the device itself
// reads it. Streams run inline, unless CpuOptions::background forces them to be asynchronous.
#pragma once
#include <chrono>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "devices/api/host/command_queue.h"
#include "devices/api/host/host_heap.h"
#include "devices/cpu/cpu_compiler.h"
#include "devices/cpu/cpu_jit.h"
#include "devices/cpu/thread_pool.h"

namespace uopd::devices::cpu {

struct CpuOptions {
  int index = 0;                         // n of "CPU:n"
  int threads = 0;                       // 0: one per processor that this process may use
  std::chrono::microseconds spin{1000};  // how long idle threads spin before they park
  std::optional<std::string> features;   // replaces the processor's features; "" is plain x86-64
  std::string baseline;                  // DeviceInfo::baseline
  HostHeap::Options memory;
  CommandQueue::Delay background;  // streams work late and in the background
};

class CpuDevice final : public Device {
 public:
  static absl::StatusOr<std::shared_ptr<CpuDevice>> Open(const CpuOptions& options);

  const Compiler& compiler() const override { return *compiler_; }
  absl::Status status() const override { return absl::OkStatus(); }
  MemoryStats memory() const override { return heap_.stats(); }
  absl::StatusOr<std::shared_ptr<Buffer>> Allocate(size_t bytes, MemoryKind kind) override;
  absl::StatusOr<std::shared_ptr<Executable>> Load(const KernelCode& kernel_code) override;
  absl::StatusOr<std::unique_ptr<Stream>> NewStream() override;
  std::optional<Speeds> MeasureSpeeds() override;

  const CpuCompiler& cpu_compiler() const { return *compiler_; }
  // The threads for what the calling thread launches: those of its priority.
  ThreadPool& threads() UOPD_EXCLUDES(low_mu_);

 private:
  CpuDevice(DeviceInfo info, Target target, const CpuOptions& options,
            std::unique_ptr<CpuCompiler> compiler, std::unique_ptr<CpuJit> jit);

  HostHeap heap_;
  const std::unique_ptr<CpuCompiler> compiler_;
  const std::unique_ptr<CpuJit> jit_;
  const std::chrono::microseconds spin_;
  const CommandQueue::Delay stream_background_;
  ThreadPool threads_;
  Mutex low_mu_;
  std::map<ThreadPriority, std::unique_ptr<ThreadPool>> low_
      UOPD_GUARDED_BY(low_mu_);  // made when needed
};

}  // namespace uopd::devices::cpu
