// SPDX-License-Identifier: MIT
// What the threads of a kernel do in PTX besides computing: loops, polls of the stop word,
// barriers, exchanged values, numbers of blocks and threads.
//
// In kernels whose threads wait for each other, or exchange values, all threads of a block poll
// together: a thread that returned alone would be missed.
#pragma once
#include <vector>

#include "core/base/status.h"
#include "core/render/block_kernel.h"
#include "core/render/ptx/text.h"

namespace uopd::render {

// Not thread-safe. The text and the kernel's facts must outlive it.
class PtxControl {
 public:
  // The register that holds the address of the stop word.
  static constexpr std::string_view kStop = "%stop";

  PtxControl(PtxText& text, const BlockKernel& kernel) : text_(text), kernel_(kernel) {}

  // Returns from the kernel if the stop word is set.
  void Poll();
  bool polls() const { return polls_; }
  void Begin(ir::UOp range);
  // Closes the innermost loop.
  void End();
  void Barrier() { text_.Put("bar.sync 0"); }
  absl::Status Special(ir::UOp u);
  absl::Status Shuffle(ir::UOp u);
  // ROLE and ROLE_END. The roles are the branches of one choice.
  void BeginRole(ir::UOp u);
  void EndRole();

 private:
  struct Loop {
    std::string number, type, size;
    std::string body;          // label
    std::string chunk, limit;  // of a loop that polls every few iterations: its label; a register
    std::string after;         // label; "" if the loop runs at least once
  };
  PtxText& text_;
  const BlockKernel& kernel_;
  std::vector<Loop> loops_;  // outermost first
  bool polls_ = false;
  std::string next_role_, roles_end_;  // labels; "" for the last role
};

}  // namespace uopd::render
