// SPDX-License-Identifier: MIT
// Reductions to few elements, on devices whose kernels are shared by the threads of a processor.
//
// With few elements, the loops over the result do not give every thread work. So the terms are
// split into chunks, which all threads share; a second REDUCE combines the results of the chunks
// (cut_reduce.h). In the units of fusion.h, the cost is
//
//   work / t                                                              of one REDUCE
//   work / t' + chunks * elements * (realise_cost + load) + launch_cost   of two
//
// where `work` is that of all terms, t is the number of threads that can share the loops over the
// result (without the innermost iterations, which vectors take), and t' the number that can share
// the chunks. Neither is larger than codegen would choose for this much work. Devices with blocks:
// split_for_blocks.h.
#pragma once
#include <optional>

#include "core/ir/shape.h"
#include "core/schedule/prepare/cut_reduce.h"
#include "core/schedule/schedule.h"

namespace uopd::schedule {

// Sizes of a REDUCE.
struct ReduceSizes {
  ir::Dims dims;                    // of its source
  int64_t terms = 1, elements = 1;  // terms of an element of the result; such elements
  double all = 0;                   // terms of all elements
};
// Nullopt: the source has a symbolic axis, no elements, or more than 2^60.
std::optional<ReduceSizes> SizesOfReduce(ir::UOpContext& ctx, ir::UOp u);

// Operations of one term, down to values in memory and other reductions. Visits at most 32 nodes.
double WorkOfTerm(ir::UOp x);

// The largest divisor of n that is at most `most`.
int64_t DivisorUpTo(int64_t n, int64_t most);

// How the REDUCE u is cut; nullopt: one REDUCE is cheaper, or nothing fits.
std::optional<Cut> CutForThreads(ir::UOpContext& ctx, ir::UOp u, const Options& options,
                                 const KernelLimits& limits);

}  // namespace uopd::schedule
