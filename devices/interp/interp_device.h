// SPDX-License-Identifier: MIT
// INTERP: runs linear kernels for GPUs on the host, all threads of a block in lockstep, one block
// after the other (core/interp). It is slow, and it is the reference for code with blocks.
//
// A launch fails with INTERNAL, and names the line, the block and the thread, where a kernel loads
// or stores outside of a buffer, loads what was not stored, has a race, or comes to a barrier or
// loop with some threads of a block only. What the kernel stored before stays.
//
// Memory is host memory. Streams run inline, unless InterpOptions::background forces them to be
// asynchronous. A launch runs on one thread; several launches may run at the same time. A launch
// whose StopFlag is set ends soon. Thread-safe.
#pragma once
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/target/target.h"
#include "core/interp/program.h"
#include "devices/api/compiler.h"
#include "devices/api/host/command_queue.h"
#include "devices/api/host/host_heap.h"

namespace uopd::devices::interp {

// What differs between the GPUs that the device can stand for.
struct InterpShape {
  int warp_lanes = 32;  // a power of two
  std::vector<MatrixInstruction> matrix_instructions;
  int64_t shared_bytes = 48 << 10;  // of one block
  bool matrix_loads = false;        // Target::matrix_loads
  bool async_copies = false;        // Target::async_copies
  bool bulk_copies = false;         // Target::bulk_copies
};

// Warps of 32 lanes and the matrix instructions of sm_80.
InterpShape NvidiaShape();
// Warps of 32 lanes and the matrix instructions of sm_90a, those of groups of warps first.
InterpShape HopperShape();
// Warps of 64 lanes and the matrix instructions of gfx90a.
InterpShape AmdShape();

// The target that INTERP stands for, as facts. A pure function.
Target InterpTarget(const InterpShape& shape);

// A kernel that is ready to run.
struct InterpCode {
  std::string name;
  uopd::interp::Program program;
};

// Checks the text of a linear kernel (core/ir/io/linear_text.h). The object is the text, unchanged.
// Thread-safe: each call has a context of its own.
class InterpCompiler final : public Compiler {
 public:
  explicit InterpCompiler(std::vector<MatrixInstruction> matrix_instructions)
      : matrix_instructions_(std::move(matrix_instructions)) {}

  absl::StatusOr<std::string> Compile(std::string_view source) const override;
  // Parses and verifies. INTERNAL: what is wrong with the text, as for Compile.
  absl::StatusOr<InterpCode> Parse(std::string_view source) const;

 private:
  const std::vector<MatrixInstruction> matrix_instructions_;
};

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
