// SPDX-License-Identifier: MIT
// KernelFacts: what the heuristic knows of a kernel before it chooses: its axes, accesses,
// arithmetic and reductions, and the loops around each.
#pragma once
#include <limits>
#include <map>
#include <optional>
#include <span>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "core/base/target/target.h"
#include "core/ir/context.h"

namespace uopd::codegen {

using AxisSet = uint64_t;  // a bit for each axis

struct Access {
  ir::UOp node;                                 // the LOAD or STORE
  AxisSet path = 0;                             // axes whose loops enclose the access
  std::vector<std::optional<int64_t>> strides;  // by axis; nullopt: not constant
  bool is_store = false, is_gated = false;
  AxisSet gate_along = 0;                                 // axes that the gate depends on
  int64_t bytes = 4;                                      // of one element in memory
  double most = std::numeric_limits<double>::infinity();  // elements of the buffer, if known
  double reuse = 1;  // iterations that read what one iteration reads; 1: it cannot be packed
};

// A reduction: `over` are the axes that it reduces, `path` the loops around its result.
struct Result {
  AxisSet over = 0, path = 0;
};

// A stage whose values are results of reductions.
struct StagedSums {
  size_t innermost = 0;  // the last axis that the stage closes
  AxisSet along = 0;     // the axes that the stage depends on
};

class KernelFacts {
 protected:
  // REQUIRES: sink has at most 60 axes. The context and the target must outlive the facts.
  KernelFacts(ir::UOpContext& ctx, ir::UOp sink, const Target& target);

  static AxisSet Bit(size_t axis) { return AxisSet{1} << axis; }
  bool IsReduce(size_t axis) const { return axes_[axis].axis_type() == ir::AxisType::REDUCE; }
  // A thread of a warp has no cache of its own for what it packs.
  bool CanPack() const { return target_.warp_lanes == 1; }
  // Whether results are stored along the axis: in a buffer, or in an array of a stage.
  bool IsStoredAlong(size_t axis) const { return !IsReduce(axis) || staged_over_[axis]; }
  // The product of the sizes of the axes.
  double Times(AxisSet path) const;
  // Whether each iteration along the axis executes the access. What fills a stage stands outside of
  // the loops that the stage does not depend on.
  bool IsRepeated(const Access& access, size_t axis) const {
    return !has_stages_ || (access.path & Bit(axis)) != 0;
  }
  AxisSet Reduced() const;  // the axes of reductions and stages

  ir::UOpContext& ctx_;
  const ir::UOp sink_;
  const Target& target_;
  const std::vector<ir::UOp> axes_;
  std::vector<int64_t> sizes_;       // by axis: iterations at the maximum of the variables
  std::vector<bool> fixed_;          // by axis: the size is constant
  std::vector<bool> staged_over_;    // by axis: a STAGE closes it
  std::map<AxisSet, double> lines_;  // lines without opts, by the axes they depend on
  std::vector<Access> accesses_;
  std::vector<AxisSet> alu_;  // path of each arithmetic op
  std::vector<Result> results_;
  std::vector<StagedSums> staged_sums_;
  bool has_stages_ = false;
  AxisSet reduces_ = 0;         // the axes of reductions
  bool unrolls_whole_ = false;  // the reductions are so short that they are unrolled whole
  int64_t widest_ = 1;          // bytes of the widest value
  int64_t lane_bytes_ = 1;  // one register holds as many lanes of this size as vectors should have

 private:
  AxisSet PathOf(AxisSet along) const;
  AxisSet BitsOf(std::span<const ir::UOp> ranges) const;
  void FindAxes(std::span<const ir::UOp> order);
  void FindPaths(std::span<const ir::UOp> order);
  void FindLaneBytes(std::span<const ir::UOp> order);
  void NoteStage(ir::UOp u);
  void NoteReduce(ir::UOp u);
  void NoteAccess(ir::UOp u);
  bool SumsInside(ir::UOp stage) const;
  bool MultipliesMatrices(std::span<const ir::UOp> order) const;

  absl::flat_hash_map<uint32_t, ir::UOp> states_;          // of ONLINE: see StatesOf
  absl::flat_hash_map<uint32_t, size_t> number_;           // id of a RANGE -> axis
  absl::flat_hash_map<uint32_t, AxisSet> along_, inside_;  // by node id: FindAxes, FindPaths
};

}  // namespace uopd::codegen
