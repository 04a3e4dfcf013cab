// SPDX-License-Identifier: MIT
// The loops of a kernel as LLVM IR, and their polls of the stop word.
//
// A loop that polls every n iterations (n > 1) becomes two loops: the outer one over chunks polls,
// the inner one runs over a chunk and has the same body as without polls. They share one counter.
#pragma once
#include "core/render/llvm_text.h"

namespace uopd::render {

// Not thread-safe. The text must outlive it.
class LlvmLoops {
 public:
  explicit LlvmLoops(LlvmText& text) : text_(text) {}
  virtual ~LlvmLoops() = default;

  void Open(ir::UOp range);
  void Close(ir::UOp range);

  bool polls() const { return polls_; }  // whether a loop so far jumps to the label "stopped"

 protected:
  // Jumps to the label "stopped" if the stop word is set. Names of labels and values end in k.
  void Poll(const std::string& k) {
    polls_ = true;
    PutPoll(k);
  }
  // The lines of a poll: the usual one reads the word %stop.
  virtual void PutPoll(const std::string& k);

  LlvmText& text_;

 private:
  void StartBlock(const std::string& name, const std::string& phi);

  bool polls_ = false;
};

}  // namespace uopd::render
