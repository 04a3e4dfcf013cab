// SPDX-License-Identifier: MIT
// The heuristic for CPUs. Its steps choose the opts of one kernel, in the order of the table in
// heuristic.cc. A step keeps an opt only if the opt applies.
#pragma once
#include <vector>

#include "core/codegen/cpu/heuristic/cpu_choice.h"

namespace uopd::codegen {

// What several steps agree on.
inline constexpr int64_t kShortLoop = 8;       // a short innermost reduced axis is unrolled whole
inline constexpr double kLeastReuse = 4;       // at least so many tiles read what is packed
inline constexpr int64_t kRowBytes = 2048;     // rows at least so far apart are on different pages
inline constexpr int64_t kLoadedTogether = 4;  // vectors that LLVM loads at the same place

// The opts of a kernel for a CPU. The context and the target must outlive the call. REQUIRES: as
// FactsOf.
std::vector<Opt> CpuOpts(ir::UOpContext& ctx, ir::UOp sink, const Target& target);

// In choose_vectors.cc: the axes with the largest saving under the cost model of vector_cost.h.
void ChooseVectors(CpuChoice& choice);

// In choose_tensor_core.cc: a matrix instruction. Sets has_tile if the opts make whole tiles.
void ChooseTensorCore(CpuChoice& choice);
// The instructions that make the word of a TC in all lanes: a load (of each element, unless they
// are contiguous), a broadcast, and for bytes of one dtype one for the sign bits.
double WordCost(const CpuChoice& choice, const Access& a);
// The instructions that take the elements out of loaded words; 0 if they lie there as they are.
double UnpackingCost(const CpuChoice& choice, const Access& a);

// In choose_tile.cc.
// Upcasts at most two axes: the innermost two along which loads are shared.
void ChooseTile(CpuChoice& choice);

// In choose_unroll.cc.
// Computes the sums of several elements of a stage at once: they share loads and the steps that
// join their lanes.
void ChooseStageUnroll(CpuChoice& choice);
void ChooseUnroll(CpuChoice& choice);

// In choose_elementwise.cc: the copies of kernels without reductions.
void ChooseElementwiseUpcast(CpuChoice& choice);

// In choose_threads.cc.
void ChooseThreads(CpuChoice& choice);
// Several parts for each thread.
void ChooseParts(CpuChoice& choice);
// Threads that the kernel has work for.
int64_t MostThreads(const KernelFacts& facts);

// In choose_panels.cc. All opts of panels apply, or none is added.
void ChoosePanels(CpuChoice& choice);

// In choose_memory.cc.
// Packs operands that are read many times and badly: along the vector one element at a time, or
// with a step of a reduction on another page of memory each time.
void ChoosePacks(CpuChoice& choice);
// Stores around the caches, and prefetches (memory_opts.h).
void ChooseMemoryOpts(CpuChoice& choice);

}  // namespace uopd::codegen
