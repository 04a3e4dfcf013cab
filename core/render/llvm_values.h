// SPDX-License-Identifier: MIT
// Operations on values as LLVM IR: arithmetic, conversions, lanes of vectors and matrix
// instructions.
#pragma once
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "core/render/llvm_text.h"

namespace uopd::render {

// Not thread-safe. The context and the text must outlive it.
class LlvmValues {
 public:
  LlvmValues(ir::UOpContext& ctx, LlvmText& text) : ctx_(ctx), text_(text) {}

  // Finds the GEPs that something reads as a scalar. Before everything else.
  void FindLanes(ir::UOp linear);

  // UNIMPLEMENTED names an op that has no rendering.
  absl::Status Line(ir::UOp u);

 private:
  absl::Status Wmma(ir::UOp u);
  absl::Status Lane(ir::UOp u);
  absl::Status Stack(ir::UOp u);
  absl::Status Cast(ir::UOp u);
  absl::Status Bitcast(ir::UOp u);
  absl::Status Select(ir::UOp u);
  absl::Status Negate(ir::UOp u);
  absl::Status Alu(ir::UOp u);
  void Exponential(ir::UOp u);
  std::string Scaled(const std::string& x, const std::string& n, int64_t lanes);
  std::string Part(const std::string& x, int64_t lanes, int64_t first, int64_t n);
  std::vector<ir::UOp> ShuffledVectors(ir::UOp stack);

  ir::UOpContext& ctx_;
  LlvmText& text_;
  absl::flat_hash_set<uint32_t> lanes_;  // the GEPs that something reads as a scalar
};

}  // namespace uopd::render
