// SPDX-License-Identifier: MIT
// The loops of a kernel as LLVM IR, and their polls of the stop word.
//
// A loop that polls every n iterations (n > 1) becomes two loops: the outer one over chunks polls, the
// inner one runs over a chunk and has the same body as without polls. They share one counter.
#pragma once
#include "core/render/llvm_text.h"

namespace uopd::render {

// Not thread-safe. The text must outlive it.
class LlvmLoops {
 public:
  explicit LlvmLoops(LlvmText& text) : text_(text) {}

  void Open(ir::UOp range);
  void Close(ir::UOp range);

  bool polls() const { return polls_; }  // whether a loop so far jumps to the label "stopped"

 private:
  void StartBlock(const std::string& name, const std::string& phi);
  void Poll(int64_t k);

  LlvmText& text_;
  bool polls_ = false;
};

}  // namespace uopd::render
