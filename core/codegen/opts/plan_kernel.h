// SPDX-License-Identifier: MIT
// PlanKernel: a kernel without opts, and what opts ask about it: its axes, its accesses, and what
// depends on which axis.
//
// Plans share it as a constant. The context must outlive it.
#pragma once
#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/inlined_vector.h"
#include "core/ir/context.h"
#include "core/ir/tables/node_index.h"

namespace uopd::codegen {

// The axes of a kernel: all its RANGEs, sorted by axis id. Opt::axis is a position in this list.
// Positions do not change while opts are added.
std::vector<ir::UOp> Axes(const ir::UOpContext& ctx, ir::UOp sink);

// The LOADs of a kernel that PACK may name, in the order of the graph: those of buffers that the
// kernel does not store to, inside of a reduction.
std::vector<ir::UOp> Loads(const ir::UOpContext& ctx, ir::UOp sink);

// The STOREs of a kernel, in the order of the graph. STREAM names them by position.
std::vector<ir::UOp> Stores(const ir::UOpContext& ctx, ir::UOp sink);

// The LOADs of a kernel from buffers that it does not store to, in the order of the graph. PREFETCH
// names them by position.
std::vector<ir::UOp> Reads(const ir::UOpContext& ctx, ir::UOp sink);

// One axis: the loop that is left, and the parts split off so far, in order.
struct PlanAxis {
  // A part that an opt split off.
  struct Part {
    ir::AxisType type;
    int64_t amount;
    bool outer;             // outside of the loop that is left
    bool group = false;     // its elements share words (TC)
    bool in_panel = false;  // a loop over tiles inside of a panel (BLOCK)
    bool mma = false;       // the part that a matrix instruction of a warp computes (TC)
  };

  ir::UOp range;
  int64_t size = -1;  // of the loop that is left; -1: symbolic
  ir::UOp symbolic;   // the size as an expression; up to date only if size is -1
  bool is_reduce = false;
  bool is_vector = false;   // a part of the axis is vectorised
  bool is_scanned = false;  // running sums run along the axis: its loop is the innermost one
  bool padded = false;
  bool is_key_tiles = false;    // the loop over key tiles of ONLINE
  bool is_merged_away = false;  // a part of another axis (MERGE)
  bool is_threads = false;      // the loop that is left becomes one thread per iteration
  int64_t raster = 1;  // neighbouring blocks along the axis that are numbered first (RASTER)
  size_t rank = 0;     // place among the loops: its position in Axes(), unless SWAP changed it
  absl::InlinedVector<Part, 4> parts;  // plans are copied often

  bool HasPanel() const {
    return std::ranges::any_of(parts, [](const Part& p) { return p.in_panel; });
  }
  bool HasThreads() const {
    return std::ranges::any_of(parts, [](const Part& p) { return p.type == ir::AxisType::LOCAL; });
  }
};

class PlanKernel {
 public:
  PlanKernel(ir::UOpContext& ctx, ir::UOp root);

  ir::UOp sink;
  std::vector<PlanAxis> axes;   // before the first opt
  std::vector<ir::UOp> loads;   // Loads()
  std::vector<ir::UOp> stores;  // Stores()
  std::vector<ir::UOp> reads;   // Reads()
  std::vector<ir::UOp> order;   // its nodes, sources first
  bool has_stages = false;
  bool in_place = false;  // the kernel loads from a buffer that it stores to
  // A statement loads what another one stores: threads would have to wait for each other.
  bool in_order = false;

  // The axis of a RANGE of the kernel.
  size_t AxisOf(ir::UOp range) const { return number_.at(range.id()); }
  // Whether the value of u depends on the axis. A REDUCE or STAGE does not depend on the axes that
  // it closes.
  bool Along(ir::UOp u, size_t axis) const {
    return (along_[(*at_)[u] * words_ + axis / 64] >> (axis % 64) & 1) != 0;
  }
  // Whether every store is inside of the loop over the RANGE.
  bool InEveryEnd(ir::UOp range) const;
  // Whether u closes the RANGE.
  static bool Closes(ir::UOp u, ir::UOp range) {
    return std::ranges::find(u.closed(), range) != u.closed().end();
  }
  // Of the marked axes, by axis: how many u depends on, where a REDUCE or STAGE also runs over the
  // axes that it closes.
  int CountAlong(ir::UOp u, std::span<const uint64_t> marked) const;
  // The words of a set of axes for CountAlong.
  std::vector<uint64_t> Marked(const std::vector<PlanAxis>& axes, bool PlanAxis::* mark) const;

 private:
  void FindDependencies();

  absl::flat_hash_map<uint32_t, size_t> number_;  // id of a RANGE -> axis
  std::optional<ir::NodeIndex> at_;               // position of a node in `order`
  // Bit sets, in the order of `order`, words_ words each: the axes that the value of the node
  // depends on.
  size_t words_ = 0;
  std::vector<uint64_t> along_;
};

}  // namespace uopd::codegen
