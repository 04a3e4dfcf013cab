// SPDX-License-Identifier: MIT
// PlanState: a kernel, and what the opts of a plan say about it so far. Plain values: a copy is a
// snapshot.
#pragma once
#include <memory>
#include <optional>
#include <vector>

#include "core/base/target/target.h"
#include "core/codegen/opts/opt.h"
#include "core/codegen/opts/plan_kernel.h"

namespace uopd::codegen {

// Attention by matrix instructions of warps (attention/warp_rows/warp_rows.h).
struct WarpRowsSize {
  size_t rows_axis = 0, key_tiles_axis = 0;  // tiles of rows; tiles of keys
  int64_t rows = 0, tile_rows = 0;
  int64_t registers = 0;  // of a thread, for operands and results
  double tiles = 1;       // of all rows, each for a warp
  int64_t copies =
      0;  // of 16 bytes, that a block of threads does for the keys or the values of a step
};

struct PlanState {
  std::shared_ptr<const PlanKernel> kernel;  // after ONLINE and MERGE
  std::vector<PlanAxis> axes;

  std::vector<ir::UOp> packed;    // of PlanKernel::loads(), in the order of the opts (PACK, TC)
  std::vector<ir::UOp> streamed;  // of PlanKernel::stores() (STREAM)
  struct Prefetched {
    ir::UOp load;
    size_t axis;
    int64_t stride;  // of the load along the axis, in elements
  };
  std::vector<Prefetched> prefetched;  // PREFETCH

  bool threaded = false;                  // a THREAD
  bool no_locals = false;                 // a NOLOCALS
  bool persists = false;                  // a PERSIST
  bool online = false;                    // an ONLINE
  std::optional<WarpRowsSize> warp_rows;  // a TC of a kernel with ONLINE
  bool pipelined = false;                 // a PIPELINE
  int64_t parts = 1;                      // of its arrays

  std::shared_ptr<const MatrixInstruction> instruction;  // of a TC; null: there is none
  size_t sum_axis = 0;                                   // that the instruction adds up
  size_t rows_axis = 0, columns_axis = 0;                // of an instruction of a warp

  explicit PlanState(std::shared_ptr<const PlanKernel> made)
      : kernel(std::move(made)), axes(kernel->axes) {}
  // Replaces the kernel. What opts say about the old one's axes is lost.
  void Become(std::shared_ptr<const PlanKernel> made) {
    kernel = std::move(made);
    axes = kernel->axes;
  }
  // Whether u is the sum that TC computes.
  bool IsMmaSum(ir::UOp u) const {
    return instruction && u.Is(ir::Op::REDUCE) && PlanKernel::Closes(u, axes[sum_axis].range);
  }
};

// A state with what it is about.
struct PlanView {
  ir::UOpContext& ctx;
  const Target& target;
  const PlanState& state;

  const PlanKernel& kernel() const { return *state.kernel; }
};

// What a row of the table changes when it adds an opt (OptRow::add).
struct Adding {
  ir::UOpContext& ctx;
  const Target& target;
  PlanState& state;
  const std::vector<Opt>& before;  // the opts so far

  PlanView view() const { return {ctx, target, state}; }
  const PlanKernel& kernel() const { return *state.kernel; }
  PlanAxis& Axis(const Opt& opt) const { return state.axes[static_cast<size_t>(opt.axis)]; }
};

// INVALID_ARGUMENT: "opt UPCAST(0, 4) does not apply: " and why.
absl::Status Bad(const Opt& opt, std::string_view why);

}  // namespace uopd::codegen
