// SPDX-License-Identifier: MIT
// Heuristic: the steps that choose the opts of one kernel, in the order of Run. Each opt is kept only
// if it applies:
//   1. vectorise the axes with the largest saving under a cost model of accesses and arithmetic;
//   2. sum up products of small elements by matrix instructions;
//   3. upcast output axes along which loads are shared (a register tile);
//   4. unroll reductions until there are enough independent accumulators;
//   5. distribute an axis over threads;
//   6. pack operands that many tiles read badly;
//   7. cut products of few rows with a large matrix into blocks;
//   8. store what no cache can hold around the caches;
//   9. prefetch the next row where a kernel goes over each row several times, and operands of
//      matrix instructions that few tiles read;
//  10. divide the axis of threads into several parts for each.
//
// Invariant: after each step, lanes_, left_, copies_, grown_ and accumulators_ describe the opts that
// plan_ holds. Exception: blocks and parts of threads, which no later step reads.
#pragma once
#include <optional>
#include <vector>

#include "core/codegen/cpu/heuristic/memory_opts.h"
#include "core/codegen/cpu/heuristic/register_tile.h"
#include "core/codegen/estimate.h"
#include "core/codegen/opts/choose/kernel_facts.h"
#include "core/codegen/opts/opt_plan.h"

namespace uopd::codegen {

// What several steps agree on.
inline constexpr int64_t kShortLoop = 8;       // a short innermost reduced axis is unrolled whole
inline constexpr double kLeastReuse = 4;       // tiles that read what is packed
inline constexpr int64_t kRowBytes = 2048;     // steps of at least this size often leave the page
inline constexpr int64_t kLoadedTogether = 4;  // vectors that LLVM loads at the same place

// Not thread-safe. The context and the target must outlive it.
class Heuristic : KernelFacts {
 public:
  // REQUIRES: as KernelFacts.
  Heuristic(ir::UOpContext& ctx, ir::UOp sink, const Target& target)
      : KernelFacts(ctx, sink, target), plan_(ctx, sink, target) {}

  // Runs all steps. REQUIRES: called once.
  std::vector<Opt> Run();

 private:
  // In choose_vectors.cc.
  void ChooseVectors();
  // Estimated instructions inside the loop over `axis` if it is vectorised by `lanes`; 1: scalar.
  double Cost(size_t axis, int64_t lanes) const;
  // Whether a kernel with little arithmetic writes elements of a long axis two to four elements apart.
  // VECTOR would store them lane by lane; LLVM makes contiguous vectors of the elements in between.
  bool Interleaves() const;
  // Whether vectors of sums along the axis would be stored lane by lane, far apart: tiles of other
  // iterations write the same lines.
  bool Scatters(size_t axis) const;
  // Whether each lane along the axis loads, or does not load, the same element by itself.
  bool LoadsByLane(const Access& a, size_t axis) const;
  // The instructions of an access to `lanes` lanes along the axis.
  double LoadsOf(const Access& a, size_t axis, int64_t lanes) const;
  // Whether lanes along the axis that do not lie together will be packed.
  bool Packs(const Access& a, size_t axis, int64_t lanes) const;
  // How often the loops execute the access for one address. Unlike Access::reuse, loops do not count
  // that the access stands outside of: the sum of a row is computed once for all results of the row.
  double Executions(const Access& a) const;
  // How many vectors, with all that the reduction reads of them, private memory has room for.
  int64_t PanelVectors(const Access& a, int64_t lanes) const;

  // In choose_tensor_core.cc.
  // A matrix instruction with as many lanes as the vectors have. Of the reduced axes one along which
  // the elements of words in memory lie is best, then one that needs no padding, then one along which
  // elements are contiguous, then the longest. Returns whether the opts make whole tiles; TC by tiles
  // alone is kept only then.
  bool ChooseTensorCore();
  // After a TC: 16 or 32 rows and one or two vectors of columns, if the target multiplies whole tiles
  // of the same elements. Packs operands whose words do not lie in memory.
  bool ChooseMatrixTile();
  // Whether the factor of a sum that is loaded here is a word in memory; `in_rows`: or elements that
  // follow each other along the axis.
  bool LiesInWords(const Access& x, size_t words, bool in_rows) const;
  // Whether the words that are loaded follow each other along the axis.
  bool HasContiguousWords(ir::UOp load, size_t axis) const;
  // Whether some factor of a sum takes its elements out of words in memory along the axis.
  bool HasWordsAlong(size_t axis) const;
  // Whether the vectors have this many lanes. Along an output axis what is loaded must also be used
  // often enough, unless it lies in memory as words; along a reduced axis words cost no more than the
  // conversions that they replace.
  bool SuitsLanes(int64_t lanes, bool has_words) const;
  // The instructions that make the word of a TC in all lanes: a load (of each element, unless they
  // are contiguous), a broadcast, and for bytes one for the sign bits.
  double WordCost(const Access& a) const;

  // In choose_tile.cc.
  // Upcasts at most two axes: the innermost two along which loads are shared.
  void ChooseTile();
  // The tile of the model (register_tile.h). False if no load of a reduction is shared.
  bool ChooseModelledTile();
  // Whether the innermost reduced axis is short, and no window slides along it: ChooseUnroll will
  // unroll it whole.
  bool UnrollsInnermost() const;
  // Which output axes a window slides along, if the reduction over it is unrolled whole.
  void AddWindows(const Access& a, TileLoad& load) const;
  // Copies of an axis with lanes for whose packed operands private memory has room.
  int64_t MostPackedCopies(size_t axis) const;
  // Contiguous elements that the reduction reads one after the other.
  int64_t RunElements(const Access& a) const;
  // Whether the kernel reads each element once, and there are too many of them for a cache.
  bool ComesFromMemory(const Access& a) const;
  // Whether some load inside of a reduction is shared along the axis: the load does not depend on it.
  bool SharedAlong(size_t axis) const;
  // Whether some load of a reduction is inside the loop over the axis.
  bool InsideReduce(size_t axis) const;
  // The useful fraction of the work if the axis is tiled by n; 0: such tiles are not allowed. Tiles
  // must divide the axis. Exception: in kernels with stages an axis that is not vectorised may be
  // padded by up to a tenth, for row counts without small divisors.
  double Wanted(size_t axis, int64_t n) const;

  // In choose_unroll.cc.
  // Computes the sums of several elements of a stage at once: they share loads and the steps that
  // join their lanes.
  void ChooseStageUnroll();
  // The amount to unroll a stage's axis by, at most `most`: a divisor of the axis above most / 2,
  // else the largest amount that pads the axis by at most a tenth, else 1. At most 8 for an axis of
  // symbolic size.
  int64_t StageAmount(size_t axis, int64_t most) const;
  // Whether some access is inside the loops of both axes: then the loop over e is inside that over
  // a.
  bool Inside(size_t e, size_t a) const;
  void ChooseUnroll();
  // Whether n steps of the reduction fit in the registers. LLVM loads vectors that are less than 512
  // bytes apart, up to four, right after the first of them, also those of later steps. One register too
  // few would cost dearly: then LLVM keeps most accumulators in memory.
  bool StepsFit(int64_t n) const;
  // Whether unrolling the axis whole makes neighbouring copies load the same elements, as the
  // windows of a convolution do, and these elements do not fit in the registers beside the
  // accumulators: LLVM would keep them from one term to the next.
  bool SlidesTooFar(size_t axis) const;

  // In choose_elementwise.cc.
  void ChooseElementwiseUpcast();
  // Upcasts a short axis whole if its iterations share a load of a vector: both results of a step of
  // a sort come from the same two elements.
  void ChooseSharedCopies();
  // Whether every store writes the lanes of its vector next to each other.
  bool VectorsAreStored() const;
  // Where a vector is gathered from rows whose elements lie next to each other along another axis,
  // as many copies of that axis as there are lanes are a square that is transposed in registers
  // (cpu/passes/transpose_loads.h).
  bool ChooseSquare();
  std::optional<size_t> SquareAxis(const Access& x, size_t axis, int64_t lanes) const;

  // In choose_threads.cc.
  void ChooseThreads();
  // Running sums along the only axis of the kernel: THREAD cuts it into blocks (split_scan.h). `work`:
  // the operations of the kernel.
  bool ChooseScanBlocks(const Estimate& e, double work);
  // Elements that one of t threads reads, each counted once, if the threads split the axis. The
  // windows of a convolution overlap, but no thread reads more than the buffer. Each thread packs the
  // words of a TC for itself: what is packed counts twice. Short rows are not divided: processors
  // fetch neighbouring lines too.
  double ReadByThread(size_t axis, int64_t t) const;
  // Threads that the kernel has work for.
  int64_t MostThreads() const;
  // Several parts for each thread (thread_parts.h).
  void ChooseParts();

  // In choose_memory.cc.
  // Packs operands that are read many times and badly: along the vector one element at a time, or
  // with a step of a reduction on another page of memory each time.
  void ChoosePacks();
  // Blocks (block_opts.h). All of their opts apply, or none is added.
  bool ChooseBlocks();
  // Stores around the caches, and prefetches (memory_opts.h, operand_prefetch.h).
  void ChooseMemoryOpts();

  // In heuristic.cc.
  bool Try(const Opt& opt) { return plan_.Add(opt).ok(); }
  // Tries an opt that makes `copies` copies of every node that depends on its axis. Refuses if the
  // kernel would grow so long that compiling it is slow.
  bool TryCopies(const Opt& opt, int64_t copies);
  // Estimated lines of the kernel with the copies of all opts so far.
  double Lines() const;
  bool Upcast(size_t axis, int64_t amount);
  int64_t Rounds(size_t axis, int64_t amount) const { return (left_[axis] + amount - 1) / amount; }
  bool HasLanes(const Access& a) const;
  std::vector<MemoryAxis> MemoryAxes() const;

  // By axis: lanes of its vector; iterations left after the opts so far; copies by UPCAST and UNROLL.
  std::vector<int64_t> lanes_, left_, copies_;
  std::vector<double> grown_;  // by axis: copies that all opts together make
  int64_t accumulators_ = 1;
  bool scan_blocks_ = false;  // blocks of running sums are distributed over threads
  OptPlan plan_;
};

}  // namespace uopd::codegen
