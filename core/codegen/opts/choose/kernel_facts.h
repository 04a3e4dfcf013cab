// SPDX-License-Identifier: MIT
// KernelFacts: what the heuristic knows of a kernel before it chooses: its axes, accesses,
// arithmetic and reductions, and the loops around each. The functions below ask about the facts.
#pragma once
#include <limits>
#include <map>
#include <optional>
#include <vector>

#include "core/base/target/target.h"
#include "core/ir/context.h"

namespace uopd::codegen {

using AxisSet = uint64_t;  // a bit for each axis

constexpr AxisSet AxisBit(size_t axis) { return AxisSet{1} << axis; }

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

struct KernelFacts {
  ir::UOpContext& ctx;
  ir::UOp sink;
  const Target& target;
  std::vector<ir::UOp> axes;
  std::vector<int64_t> sizes;       // by axis: iterations at the maximum of the variables
  std::vector<bool> fixed;          // by axis: the size is constant
  std::vector<bool> staged_over;    // by axis: a STAGE closes it
  std::map<AxisSet, double> lines;  // lines without opts, by the axes they depend on
  std::vector<Access> accesses;
  std::vector<AxisSet> alu;  // path of each arithmetic op
  std::vector<Result> results;
  std::vector<StagedSums> staged_sums;
  bool has_stages = false;
  AxisSet reduces = 0;         // the axes of reductions
  bool unrolls_whole = false;  // the reductions are so short that they are unrolled whole
  int64_t widest = 1;          // bytes of the widest value
  int64_t lane_bytes = 1;  // one register holds as many lanes of this size as vectors should have
};

// REQUIRES: sink has at most 60 axes. The context and the target must outlive the facts.
KernelFacts FactsOf(ir::UOpContext& ctx, ir::UOp sink, const Target& target);

inline bool IsReduce(const KernelFacts& facts, size_t axis) {
  return facts.axes[axis].axis_type() == ir::AxisType::REDUCE;
}

// A thread of a warp has no cache of its own for what it packs.
inline bool CanPack(const KernelFacts& facts) { return facts.target.warp_lanes == 1; }

// Whether results are stored along the axis: in a buffer, or in an array of a stage.
inline bool IsStoredAlong(const KernelFacts& facts, size_t axis) {
  return !IsReduce(facts, axis) || facts.staged_over[axis];
}

// Whether each iteration along the axis executes the access. What fills a stage stands outside of
// the loops that the stage does not depend on.
inline bool IsRepeated(const KernelFacts& facts, const Access& access, size_t axis) {
  return !facts.has_stages || (access.path & AxisBit(axis)) != 0;
}

// Whether the access is a load inside of the loops of reductions.
inline bool IsLoadOfSum(const KernelFacts& facts, const Access& access) {
  return !access.is_store && (access.path & facts.reduces) != 0;
}

// The product of the sizes of the axes.
double Times(const KernelFacts& facts, AxisSet path);

// The axes of reductions and stages.
AxisSet ReducedAxes(const KernelFacts& facts);

}  // namespace uopd::codegen
