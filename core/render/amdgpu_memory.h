// SPDX-License-Identifier: MIT
// Buffers, addresses, loads and stores of a kernel as LLVM IR for AMDGPU.
//
// Address spaces: 1 is the memory of the device, 3 the memory that the threads of a block share, 5
// the memory of a thread. A load from device memory under a gate reads zeros where the gate is
// false, without a branch.
#pragma once
#include "core/ir/shared_array.h"
#include "core/render/accumulators.h"
#include "core/render/alignment.h"
#include "core/render/llvm_text.h"

namespace uopd::render {

// Not thread-safe. The context and the text must outlive it.
class AmdgpuMemory {
 public:
  AmdgpuMemory(ir::UOpContext& ctx, LlvmText& text) : ctx_(ctx), text_(text) {}

  // Finds the BUFFERs that need memory. Before everything else.
  void FindArrays(ir::UOp linear) { accumulators_.Find(ctx_, linear); }

  absl::Status Buffer(ir::UOp u);
  void Index(ir::UOp u);
  void Load(ir::UOp u);
  void Store(ir::UOp u);

  int64_t shared_bytes() const { return shared_.bytes(); }  // of @shared: the shared arrays
  int64_t zero_bytes() const { return zero_bytes_; }        // of @zeros: as many as one load reads

 private:
  static constexpr int64_t kWideBytes = 16;  // of the widest access

  // Elements that one instruction accesses.
  struct Access {
    std::string type, pointer;  // of the elements, and of their address
    int64_t bytes = 0, align = 0;
    bool global = false;
  };
  Access AccessOf(ir::UOp index, int64_t lanes);
  // The value at an address; zeros where the gate, if there is one, is false.
  std::string Loaded(const Access& access, const std::string& at, const std::string& gate);
  void Stored(const Access& access, const std::string& at, const std::string& gate,
              const std::string& value);
  std::string LaneOf(const std::string& type, const std::string& vector, int64_t lane);
  std::string Further(const Access& access, const std::string& at, int64_t lane);

  ir::UOpContext& ctx_;
  LlvmText& text_;
  Accumulators accumulators_;
  Alignment alignment_;
  ir::SharedLayout shared_;
  int64_t zero_bytes_ = 0, next_block_ = 0;
};

}  // namespace uopd::render
