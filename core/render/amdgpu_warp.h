// SPDX-License-Identifier: MIT
// What the threads of a warp do together, as LLVM IR for AMDGPU: matrix instructions (MFMA, WMMA)
// and the exchange of values.
#pragma once
#include "core/base/target/target.h"
#include "core/render/llvm_text.h"

namespace uopd::render {

// Not thread-safe. The context, the text and the target must outlive it.
class AmdgpuWarp {
 public:
  AmdgpuWarp(ir::UOpContext& ctx, LlvmText& text, const Target& target)
      : ctx_(ctx), text_(text), target_(target) {}

  // A SHUFFLE.
  void Shuffle(ir::UOp u);
  // An MMA. UNIMPLEMENTED: the target has no such instruction.
  absl::Status Matrix(ir::UOp u);

 private:
  std::string Shuffled(ir::Dtype dtype, const std::string& x, const std::string& from);
  std::string Permuted(const std::string& word, const std::string& from);

  ir::UOpContext& ctx_;
  LlvmText& text_;
  const Target& target_;
  bool has_lane_ = false;  // %lane, the number of the thread in its warp, is defined
};

}  // namespace uopd::render
