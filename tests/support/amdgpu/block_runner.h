// SPDX-License-Identifier: MIT
// The threads of a block of a GPU on one thread of this machine. A thread runs until it waits for
// the others; then the next one runs. Threads of a warp exchange values and multiply matrices at
// such points.
//
// One block at a time. Not thread-safe.
#pragma once
#include <ucontext.h>

#include <functional>
#include <memory>
#include <vector>

#include "core/base/target/target.h"

namespace uopd::tests {

class BlockRunner;

// What a kernel gets for its thread. The text of amdgpu_on_cpu.cc knows the offsets.
struct GpuThread {
  int32_t block[3] = {0, 0, 0};
  int32_t number[3] = {0, 0, 0};  // in the block
  int32_t lane = 0;               // in the warp
  // Waits for the threads of the block.
  void (*wait)(GpuThread*) = nullptr;
  // The word of the lane whose number is from / 4.
  int32_t (*permute)(GpuThread*, int32_t from, int32_t word) = nullptr;
  // A matrix instruction on elements of that dtype, over what the lanes hold.
  void (*multiply)(GpuThread*, int32_t dtype, const void* a, const void* b, const void* sum,
                   void* out) = nullptr;
  BlockRunner* runner = nullptr;
};

class BlockRunner {
 public:
  BlockRunner(const Target& target, int64_t threads);
  // Runs body(thread) for every thread of the block.
  void Run(int64_t block, const std::function<void(GpuThread&)>& body);

 private:
  struct State {
    GpuThread thread;
    ucontext_t context;
    std::unique_ptr<std::byte[]> stack;
    int32_t word = 0;  // that others may read
    bool done = false;
  };
  struct Matrices {
    std::vector<double> a, b;
  };
  static void Wait(GpuThread* thread);
  static int32_t Permute(GpuThread* thread, int32_t from, int32_t word);
  static void Multiply(GpuThread* thread, int32_t dtype, const void* a, const void* b,
                       const void* sum, void* out);
  static void Enter(unsigned low, unsigned high);
  size_t NumberOf(const GpuThread* thread) const { return static_cast<size_t>(thread->number[0]); }

  const Target& target_;
  std::vector<State> states_;
  std::vector<Matrices> warps_;
  const std::function<void(GpuThread&)>* body_ = nullptr;
  ucontext_t scheduler_;
};

}  // namespace uopd::tests
