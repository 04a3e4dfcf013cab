// SPDX-License-Identifier: MIT
// Lineariser: the state of Linearise (linearise.h) while it emits lines, and its parts.
//
//   nests.cc       which stores share loops
//   linearise.cc   the dependencies of every node; one nest after the other
//   blocks.cc      open loops, and the lines in them
//   values.cc      every value in the innermost loop that it depends on
//   reductions.cc  accumulators, and the loops of reductions, arrays and running sums
//
// Invariants
//   (1) path_ holds the open blocks, outermost first. Block 0 is the body of the kernel.
//   (2) A node is emitted at most once in the block that is its home; `made` holds what it became.
#pragma once
#include <span>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "core/base/status.h"
#include "core/codegen/codegen.h"
#include "core/codegen/linearise/nests.h"
#include "core/ir/dtype.h"

namespace uopd::codegen {

// Not thread-safe; for one kernel.
class Lineariser {
 public:
  Lineariser(ir::UOpContext& ctx, const Target& target, std::span<const std::string> variables,
             LaunchSize& grid_x)
      : ctx_(ctx), target_(target), variables_(variables), grid_x_(grid_x) {}

  // See Linearise.
  absl::StatusOr<ir::UOp> Run(ir::UOp sink);

 private:
  using LoopSet = ir::Int128;  // a bit for each loop

  // An open loop, or the body of the kernel, which is the outermost block and always open. Lines are
  // appended. Lines of an inner block are appended when it closes, so a line that is appended here
  // while the inner block is open stands before it.
  struct Block {
    LoopSet bit = 0;
    ir::UOp range;  // the RANGE of the kernel; null for the outermost block
    std::vector<ir::UOp> lines;
    absl::flat_hash_map<uint32_t, ir::UOp> made;  // old node -> new node
  };
  // The accumulator of a REDUCE or SCAN: a register, or the lanes of a vector.
  struct Accumulator {
    ir::UOp reduce, buffer, init;
    int64_t lanes;
  };

  // An array together with the statement that fills it (LowerStages).
  static bool IsFilledArray(ir::UOp u) {
    return u.Is(ir::Op::AFTER) && u.src(0).Is(ir::Op::BUFFER);
  }
  // Whether the line(s) of u need loops of their own.
  static bool HasLoops(ir::UOp u) { return u.Is(ir::Op::REDUCE) || IsFilledArray(u); }
  // The loops that a REDUCE or a filled array closes.
  static std::span<const ir::UOp> LoopsOf(ir::UOp u);

  // In linearise.cc.
  // Fills bit_, loops_ (the loops that a node depends on) and level_ (how deep reductions and
  // arrays nest in it).
  absl::Status Analyse(ir::UOp sink);
  LoopSet Closed(ir::UOp u) const;
  absl::Status EmitNest(const Nest& nest);
  // Whether a value depends on a LOAD from a buffer that is stored to.
  bool LoadsWhatItStores(std::span<const ir::UOp> values, std::span<const ir::UOp> stores) const;

  // In blocks.cc.
  // Opens a block for a RANGE of the kernel. A THREAD range opens none: it becomes a SPECIAL.
  absl::Status Open(ir::UOp range);
  // Closes blocks down to `depth`; returns the outermost END, or null if none was open.
  ir::UOp Close(size_t depth, std::vector<ir::UOp> statements);
  // The block that u belongs to: the innermost open loop that u depends on.
  Block& Home(ir::UOp u);
  bool IsMade(ir::UOp u) { return Inline(u) || Home(u).made.contains(u.id()); }
  // Constants and the shapes of buffers are not lines.
  static bool Inline(ir::UOp u);
  ir::UOp New(ir::UOp u);
  ir::UOp Line(ir::UOp u) {
    path_.back().lines.push_back(u);
    return u;
  }
  // Appends u and the nodes that were created between u and its operands a and b.
  ir::UOp LineAll(ir::UOp u, ir::UOp a, ir::UOp b);

  // In values.cc.
  // Emits every node below `roots` that is not emitted yet and depends on open loops only.
  // Recursion (through EmitWithLoops) is as deep as reductions and arrays nest.
  absl::Status Emit(std::span<const ir::UOp> roots);
  std::vector<ir::UOp> WithLoops(std::span<const ir::UOp> roots);
  // Emits `first` and all reductions and arrays that can share its loops.
  absl::Status EmitWithLoops(ir::UOp first);

  // In reductions.cc.
  // A running sum: an accumulator that is set up before the outermost of its loops, and changed in
  // each iteration. REQUIRES: its loops are the innermost ones that it depends on.
  absl::Status EmitScan(ir::UOp u);
  absl::Status EmitLoops(std::span<const ir::UOp> together);
  // Emits a statement inside of the open loops, with its own loops; returns its line.
  absl::StatusOr<ir::UOp> EmitStatement(ir::UOp statement);
  // A SCAN over a THREAD range. REQUIRES: its source has no loops left.
  absl::Status EmitThreadScan(ir::UOp u);
  // Appends the accumulator to `lines`, with `maybe_start` in it, a line of `lines` or of a block
  // around; null: the identity element.
  Accumulator MakeAccumulator(ir::UOp u, ir::UOp maybe_start, std::vector<ir::UOp>& lines);
  // Takes a kReduceChain apart: the unrolled terms of one step of a reduction, left to right.
  void Terms(ir::UOp x, ir::Op op, std::vector<ir::UOp>& out);
  // Emits one term of a step of a reduction; returns the new value of the accumulator.
  absl::StatusOr<ir::UOp> AddTerm(ir::UOp reduce, ir::UOp acc, ir::UOp term);
  // Whether the term is a product that is added to the accumulator with one MULACC.
  bool Fuses(ir::UOp reduce, ir::UOp term) const;

  ir::UOpContext& ctx_;
  const Target& target_;
  const std::span<const std::string> variables_;
  LaunchSize& grid_x_;
  std::vector<Block> path_;          // open blocks, outermost first
  std::vector<ir::UOp> with_loops_;  // reductions and arrays of the current nest
  absl::flat_hash_map<uint32_t, LoopSet> bit_, loops_;
  absl::flat_hash_map<uint32_t, int> level_;
  int64_t next_loop_ = 0, next_register_ = 0;
};

}  // namespace uopd::codegen
