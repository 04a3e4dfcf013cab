// SPDX-License-Identifier: MIT
// LineList: lines of a linear kernel in the order in which they run.
//
// A list has each line once, and no constants. Not thread-safe. The context must outlive it.
#pragma once
#include <span>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "core/ir/context.h"

namespace uopd::codegen {

class LineList {
 public:
  explicit LineList(ir::UOpContext& ctx) : ctx_(ctx) {}

  void Add(ir::UOp u);
  // Adds a line and whatever it needs that is no line yet; parameters and arrays are not added.
  // Returns the line.
  ir::UOp AddAll(ir::UOp u);
  // Adds a statement that has nothing but its place, such as a BARRIER: it comes after the last
  // line. REQUIRES: there is one.
  void Mark(ir::Op op, ir::Arg arg = {});

  const std::vector<ir::UOp>& lines() const { return lines_; }
  // The lines so far. The list does not add them again.
  std::vector<ir::UOp> Take();

 private:
  ir::UOpContext& ctx_;
  std::vector<ir::UOp> lines_;
  absl::flat_hash_set<uint32_t> listed_;
};

// The lines without those whose values nothing needs any more.
std::vector<ir::UOp> WithoutUnusedLines(std::span<const ir::UOp> lines);

}  // namespace uopd::codegen
