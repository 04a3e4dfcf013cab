// SPDX-License-Identifier: MIT
// Open loops while lines are emitted, and the lines in them.
//
// Invariants
//   (1) The lines of a scope are appended to the surrounding one when the scope closes.
//   (2) A node is emitted at most once in the scope that is its home; `made` holds what it became.
#pragma once
#include <span>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "core/codegen/linearise/node_loops.h"

namespace uopd::codegen {

// An open loop, or the body of the kernel, which is the outermost scope and always open. Lines are
// appended. Lines of an inner scope are appended when it closes, so a line that is appended here
// while the inner scope is open stands before it.
struct Scope {
  ir::UOp Line(ir::UOp u) {
    lines.push_back(u);
    return u;
  }
  // Appends u and the nodes that were created between u and its operands a and b.
  ir::UOp LineAll(const ir::UOpContext& ctx, ir::UOp u, ir::UOp a, ir::UOp b);

  LoopSet bit = 0;
  ir::UOp range;  // the RANGE of the kernel; null for the outermost scope
  std::vector<ir::UOp> lines;
  absl::flat_hash_map<uint32_t, ir::UOp> made;  // old node -> new node
};

// Not thread-safe. The context and the loops must outlive it. A reference to a scope is valid until
// a scope opens or closes.
class Scopes {
 public:
  Scopes(ir::UOpContext& ctx, const NodeLoops& loops) : ctx_(ctx), loops_(loops), path_(1) {}

  Scope& body() { return path_.front(); }
  Scope& innermost() { return path_.back(); }
  size_t depth() const { return path_.size(); }
  LoopSet OpenLoops() const;

  // Opens a scope for a RANGE of the kernel with this new size.
  void Open(ir::UOp range, ir::UOp size);
  // Closes scopes down to `depth`; returns the outermost END, or null if none was open.
  ir::UOp Close(size_t depth, std::vector<ir::UOp> statements);
  // Takes the scopes away that are inside of all open loops among `loops`, until PutBack.
  std::vector<Scope> SetAside(LoopSet loops);
  void PutBack(std::vector<Scope> set_aside);

  // The scope that u belongs to: the innermost open loop that u depends on.
  Scope& Home(ir::UOp u);
  // The scope around the outermost open loop among `loops`; null: none of them is open.
  Scope* MaybeAround(LoopSet loops);
  bool IsMade(ir::UOp u);
  // What u became. REQUIRES: u is a constant, or is made.
  ir::UOp New(ir::UOp u);

 private:
  ir::UOpContext& ctx_;
  const NodeLoops& loops_;
  std::vector<Scope> path_;  // outermost first; the first is the body of the kernel
  int64_t next_loop_ = 0;
};

}  // namespace uopd::codegen
