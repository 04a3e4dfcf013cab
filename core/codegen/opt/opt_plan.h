// SPDX-License-Identifier: MIT
// OptPlan: a list of opts for one kernel that grows opt by opt.
//
// Add checks an opt against the kernel and the opts before it; Apply builds the resulting kernel.
// For a kernel without stages Add does not build the kernel, so the heuristic can try many opts.
#pragma once
#include <algorithm>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "core/base/status.h"
#include "core/codegen/codegen.h"
#include "core/codegen/opt/pack.h"
#include "core/codegen/opt/tensor_core.h"
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

// The tag of a STORE that writes around the caches, from ApplyOpts on.
inline constexpr int64_t kStreamed = 1;
// A LOAD with a tag, from ApplyOpts on, also prefetches what lies that many elements further.

// Attention by matrix instructions of warps (online/warp_rows.h).
struct WarpRowsSize {
  size_t rows_axis = 0, blocks_axis = 0;  // tiles of rows; blocks of keys
  int64_t rows = 0, tile_rows = 0;
  int64_t registers = 0;  // of a thread, for operands and results
  double tiles = 1;       // of all rows, each for a warp
  int64_t copies =
      0;  // of 16 bytes, that a block of threads does for the keys or the values of a step
};

// Not thread-safe. The context and the target must outlive the plan.
class OptPlan {
 public:
  OptPlan(ir::UOpContext& ctx, ir::UOp sink, const Target& target);

  // Appends an opt. INVALID_ARGUMENT, and no change of the plan, if
  //   - the opt does not fit the axis or the opts before it;
  //   - a value would depend on two vectorised axes (a value has only one lane dimension);
  //   - the copies of staged or packed values would take too much memory.
  absl::Status Add(const Opt& opt);
  void Clear();
  const std::vector<Opt>& opts() const { return opts_; }
  // The instruction of the TC among the opts, one of RowInstructions, or null.
  const MatrixInstruction* maybe_instruction() const {
    return instruction_ ? &*instruction_ : nullptr;
  }

  // Bytes of the arrays that a block shares, on a target with blocks: one part of a PIPELINE. Builds the kernel.
  int64_t SharedBytes();
  // Of a TC by an instruction of a warp: the axes of its rows and of its columns.
  size_t rows_axis() const { return rows_axis_; }
  size_t columns_axis() const { return columns_axis_; }
  // The kernel that the other opts change: after ONLINE and MERGE.
  ir::UOp kernel() const { return sink_; }
  // The number of axes.
  size_t axes() const { return axes_.size(); }
  // Whether the axis is reduced and has n iterations.
  bool IsStep(size_t axis, int64_t n) const {
    return axes_[axis].is_reduce && axes_[axis].size == n;
  }
  // Of a TC of a kernel with ONLINE.
  const WarpRowsSize& warp_rows_size() const { return *warp_rows_; }

  // The kernel with every opt applied in order. Ranges of one iteration are replaced by 0, and axis
  // ids are renumbered without gaps. An amount that does not divide its axis pads it: the last
  // tile of an output axis overlaps the one before it. Where it must not (the axis is shorter than
  // a tile or has a symbolic size, or the kernel loads what it stores), and for reduced axes,
  // accesses in the padding are gated, and reductions see their identity element.
  // RESOURCE_EXHAUSTED if the kernel needs too much staged memory even without opts.
  absl::StatusOr<ir::UOp> Apply();

 private:
  // One axis: the remaining loop, and the parts split off so far, in order.
  struct Axis {
    ir::UOp range;
    int64_t size = -1;  // of the remaining loop; -1: symbolic
    ir::UOp symbolic;   // the size as an expression; up to date only if size is -1
    bool is_reduce = false;
    bool is_vector = false;   // a part of the axis is vectorised
    bool is_scanned = false;  // running sums run along the axis: its loop is the innermost one
    bool padded = false;
    bool is_blocks = false;       // the loop over blocks of ONLINE
    bool is_merged_away = false;  // a part of another axis (MERGE)
    bool is_threads = false;      // the remaining loop becomes one thread per iteration
    int64_t raster = 1;  // neighbouring blocks along the axis that are numbered first (RASTER)
    size_t rank = 0;     // place among the loops: its position in Axes(), unless SWAP changed it
    struct Part {
      ir::AxisType type;
      int64_t amount;
      bool outer;          // outside of the remaining loop
      bool group = false;  // its elements share words (TC)
      bool block = false;  // a loop over tiles inside of a block (BLOCK)
      bool mma = false;    // the part that a matrix instruction of a warp computes (TC)
    };
    std::vector<Part> parts;
    bool HasBlock() const {
      return std::any_of(parts.begin(), parts.end(), [](const Part& p) { return p.block; });
    }
  };
  absl::Status Split(const Opt& opt);
  // In opt_threads.cc: opts of targets with blocks.
  absl::Status Local(Axis& axis, const Opt& opt, int64_t amount, bool divides);
  absl::Status Group(Axis& axis, const Opt& opt, int64_t amount, bool divides);
  absl::Status Merge(const Opt& opt);
  absl::Status Swap(const Opt& opt);
  absl::Status PadTo(Axis& axis, const Opt& opt);
  absl::Status NoLocals(const Opt& opt);
  absl::Status PipelineOf(const Opt& opt);
  absl::Status Raster(const Opt& opt);
  absl::Status Persist(const Opt& opt);
  // Whether the iterations of the loop that is left of the axis become blocks of a launch.
  bool IsGrid(size_t axis) const;
  bool MayBeGrid(size_t axis) const;  // the same, however many blocks there are
  // The iterations of the loops that u closes, with every variable at its maximum.
  double Trips(ir::UOp u) const;
  // Why the built kernel does not fit in a block or a thread; empty if it does.
  std::string BlockTooLarge(ir::UOp made) const;
  // Why the axis cannot be cut into blocks; empty if it can.
  std::string MaybeNoBlock(const Axis& axis) const;
  absl::Status Pack(const Opt& opt);
  absl::Status Stream(const Opt& opt);
  absl::Status Prefetch(const Opt& opt);
  // The distance in elements from what a prefetched load reads to what it prefetches; 0: no such load.
  int64_t PrefetchDistance(ir::UOp load) const;
  // The steps of a reduced axis that `load` prefetches ahead: more if its rows are short.
  int64_t RowsAhead(ir::UOp load) const;
  absl::Status TensorCore(const Opt& opt);
  // In opt_warp_tile.cc: TC by an instruction whose operands lie in the registers of a warp.
  absl::Status WarpTile(const Opt& opt);
  // The output axis that the first factor depends on and the other does not, or none.
  std::optional<size_t> MaybeOwnAxis(ir::UOp factor, ir::UOp other) const;
  absl::Status ThreadWhole(const Opt& opt);
  absl::Status SplitOff(Axis& axis, Axis::Part part, bool divides);
  bool InEveryEnd(ir::UOp range) const;  // every store is inside the loop over `range`
  // Reads the kernel `sink`, without opts.
  void Read(ir::UOp sink);
  absl::Status OnlineRow(const Opt& opt);
  absl::Status WarpRows(const Opt& opt);
  void FindDependencies();
  // Whether the value of u depends on the axis.
  bool Along(ir::UOp u, size_t axis) const {
    return (along_[(*at_)[u] * words_ + axis / 64] >> (axis % 64) & 1) != 0;
  }
  absl::Status CheckVectors() const;
  // Whether u is the sum that TC computes. REQUIRES: instruction_.
  bool IsMmaSum(ir::UOp u) const;
  absl::Status Bad(const Opt& opt, std::string_view why) const;
  // An error text if the stages of the built kernel need too much memory, else empty.
  std::string StagedTooMuch(ir::UOp made) const;

  // In apply.cc.
  struct MadeAxis {
    ir::UOp value;                 // replaces the RANGE of the axis
    ir::UOp maybe_valid;           // false in the padding; null: there is no padding
    std::vector<ir::UOp> ranges;   // without `maybe_group`
    std::vector<int64_t> strides;  // of the ranges
    std::vector<bool> in_loop;     // of the ranges: a loop over tiles inside of a block
    ir::UOp maybe_group;           // the part whose elements share words, of the axis of TC
    ir::UOp maybe_blocks;  // the loop over blocks of a reduced axis, which is not in `ranges`
    // Stands for the place along the axis inside of a matrix instruction of a warp; not in `ranges`.
    ir::UOp maybe_mma;
    int64_t mma_stride = 1;
  };
  // The RANGEs of the lanes of a warp, and of the bits of the number of a result in its lane, lowest first.
  struct WarpRanges {
    ir::UOp lane;
    std::vector<ir::UOp> element;
  };
  ir::UOp MakeMma(ir::UOp reduce, const Factors& operands, std::span<const MadeAxis> made,
                  const WarpRanges& warp, int64_t& next_id);
  ir::UOp ResultOf(ir::UOp sums, const WarpRanges& warp);
  // In opt_staged_words.cc: the words of an operand of a matrix instruction of a warp, which the block stages if
  // `packed`. `value` is its element; where `maybe_valid` is false, the element is 0.
  ir::UOp OperandWords(ir::UOp value, ir::UOp maybe_valid, bool packed, const Fragment& place,
                       char own, size_t own_axis, std::span<const MadeAxis> made,
                       const WarpRanges& warp, int64_t& next_id);
  // In opt_group_mma.cc: the sum over `ranges` by an instruction that reads shared memory.
  ir::UOp MakeGroupProduct(ir::UOp reduce, const Factors& operands, ir::UOp maybe_valid,
                           std::span<const MadeAxis> made, int64_t& next_id);
  // Why such an instruction cannot compute the sum; empty if it can.
  std::string MaybeNoGroup(const Factors& factors) const;
  // Whether each iteration of the loop that is left of the axis stages operands anew: of BLOCK, and of every reduced
  // axis of a sum whose instruction reads shared memory.
  bool IsStepped(const Axis& axis) const;
  // Whether a load of u is packed.
  bool IsPacked(ir::UOp u) const;
  // sink with the places in a matrix instruction as functions of the lane and the element. `stores`: those of sink
  // whose results move between lanes, if they can (StoresInQuads).
  ir::UOp PlaceResults(ir::UOp sink, std::span<const MadeAxis> made, const WarpRanges& warp,
                       std::span<const ir::UOp> stores);
  // In opt_quad_stores.cc: exchanges results between lanes, so that a lane stores more neighbours.
  bool StoresInQuads(ir::UOp store) const;
  // The RANGE of two that is bit 3 of a result's column, or null; which bit of the element's number it is, if any.
  struct QuadBit {
    ir::UOp maybe_range;
    std::optional<size_t> element;
  };
  QuadBit QuadBitOf(std::span<const MadeAxis> made, const WarpRanges& warp) const;
  // Whether UPCAST of the axis makes the RANGE of a QuadBit, if the amount is even.
  bool HoldsQuadBit(const Axis& axis) const;
  ir::UOp QuadStore(ir::UOp store, std::span<const MadeAxis> made, const WarpRanges& warp,
                    const QuadBit& bit, const ir::Substitution& places);
  std::vector<MadeAxis> MakeAxes(int64_t& next_id);
  // `in_rows`: in the order of the rows of a matrix (PackPart::in_rows).
  ir::UOp MakePacked(ir::UOp value, std::span<const MadeAxis> made, int64_t& next_id,
                     bool in_rows = false);
  // Whether u, a product of loads, is 0 in the padding of the axis: then a sum needs no condition, and
  // each product is one multiply-add.
  bool IsZeroInPadding(ir::UOp u, size_t axis) const;
  // The result of `reduce` over all blocks, where `value` is that over one of them.
  ir::UOp MakeBlocked(ir::UOp reduce, ir::UOp value, std::span<const MadeAxis> made,
                      ir::Substitution& fresh, int64_t& next_id);
  // The RANGEs of a block that `value` depends on, with the parts of reduced axes if `reduced`.
  std::vector<PackPart> PartsOf(ir::UOp value, std::span<const MadeAxis> made, bool reduced) const;
  // REDUCEs that TC replaces: `operands` are the replacements of its factors.
  bool IsTensorCore(ir::UOp reduce) const;
  ir::UOp MakeTensorCore(ir::UOp reduce, const Factors& operands, std::span<const MadeAxis> made,
                         int64_t& next_id);
  ir::UOp Make();

  ir::UOpContext& ctx_;
  const ir::UOp given_;  // the kernel before ONLINE and MERGE
  ir::UOp sink_;
  const Target& target_;
  std::vector<Axis> axes_, unsplit_;
  bool threaded_ = false, has_stages_ = false;
  bool pipelined_ = false;                 // see PIPELINE
  int64_t parts_ = 1;                      // of its arrays
  bool persists_ = false;                  // see PERSIST
  bool no_locals_ = false;                 // see NOLOCALS
  bool online_ = false;                    // see ONLINE
  std::optional<WarpRowsSize> warp_rows_;  // set by a TC of a kernel with ONLINE
  bool in_place_ = false;                  // the kernel loads from a buffer that it stores to
  bool in_order_ = false;                  // with blocks: a statement loads what another one stores
  std::vector<ir::UOp> loads_;             // see Loads
  std::vector<ir::UOp> packed_;            // of them, in the order of the opts
  std::vector<ir::UOp> stores_;            // see Stores
  std::vector<ir::UOp> streamed_;          // of them, in the order of the opts
  std::vector<ir::UOp> reads_;             // see Reads
  struct Prefetched {
    ir::UOp load;
    size_t axis;
    int64_t stride;  // of the load along the axis, in elements
  };
  std::vector<Prefetched> prefetched_;
  std::optional<MatrixInstruction> instruction_;
  size_t group_axis_ = 0;                    // of TC
  size_t rows_axis_ = 0, columns_axis_ = 0;  // of a TC of a warp
  bool loads_words_ = true;  // operands are read as words where they lie so in memory (word_load.h)
  std::vector<Opt> opts_;

  absl::flat_hash_map<uint32_t, size_t> number_;  // id of a RANGE -> axis
  std::vector<ir::UOp> order_;                    // the nodes of the kernel, sources first
  std::optional<ir::NodeIndex> at_;               // position of a node in order_
  // Bit sets, in the order of order_, words_ words each: the axes that the value of the node
  // depends on. A REDUCE or STAGE does not depend on the axes that it closes.
  size_t words_;
  std::vector<uint64_t> along_;
};

}  // namespace uopd::codegen
