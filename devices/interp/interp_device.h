// SPDX-License-Identifier: MIT
// INTERP: runs linear kernels for GPUs on the host, all threads of a block in lockstep, one block after the
// other (core/interp). It is slow, and it is the reference for code with blocks.
//
// A launch fails with INTERNAL, and names the line, the block and the thread, where a kernel loads or stores
// outside of a buffer, loads what was not stored, has a race, or comes to a barrier or loop with some threads
// of a block only. What the kernel stored before stays.
//
// Memory is host memory. Streams run inline, unless InterpOptions::background forces them to be asynchronous.
// A launch runs on one thread; several launches may run at the same time. A launch whose StopFlag is set ends
// soon. Thread-safe.
#pragma once
#include <memory>

#include "devices/api/host/command_queue.h"
#include "devices/api/host/host_heap.h"
#include "devices/interp/interp_compiler.h"
#include "devices/interp/interp_target.h"

namespace uopd::devices::interp {

struct InterpOptions {
  int index = 0;  // n of "INTERP:n"
  InterpShape shape = NvidiaShape();
  HostHeap::Options memory;
  CommandQueue::Delay background;  // streams work late and in the background
};

class InterpDevice final : public Device {
 public:
  static std::shared_ptr<InterpDevice> Open(const InterpOptions& options);

  const Compiler& compiler() const override { return compiler_; }
  absl::Status status() const override { return absl::OkStatus(); }
  MemoryStats memory() const override { return heap_.stats(); }
  absl::StatusOr<std::shared_ptr<Buffer>> Allocate(size_t bytes, MemoryKind kind) override;
  absl::StatusOr<std::shared_ptr<Executable>> Load(const KernelCode& kernel_code) override;
  absl::StatusOr<std::unique_ptr<Stream>> NewStream() override;

 private:
  explicit InterpDevice(const InterpOptions& options);

  HostHeap heap_;
  const CommandQueue::Delay background_;
  const InterpCompiler compiler_;
};

}  // namespace uopd::devices::interp
