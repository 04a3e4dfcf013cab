// SPDX-License-Identifier: MIT
// Products of matrices by tile registers (AMX) as LLVM IR. A tile holds 16 rows of 64 bytes.
//
// Invariant: tiles 0 to 3 hold sums, 4 and 5 rows, 6 and 7 columns. Nothing else uses tiles.
#pragma once
#include "core/render/llvm_text.h"

namespace uopd::render {

// Not thread-safe. The text must outlive it.
class LlvmTiles {
 public:
  explicit LlvmTiles(LlvmText& text) : text_(text) {}

  // A WMMA_BLOCK. UNIMPLEMENTED for sizes that are no one or two tiles.
  absl::Status Block(ir::UOp u);

  // What a function with blocks needs: a constant, its first lines and its last ones; else empty.
  std::string_view Constants() const;
  std::string_view Begin();
  std::string_view End() const;

 private:
  LlvmText& text_;
  int64_t blocks_ = 0;
};

}  // namespace uopd::render
