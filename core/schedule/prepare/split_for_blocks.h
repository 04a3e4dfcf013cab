// SPDX-License-Identifier: MIT
// Reductions to few elements, on devices that run blocks of threads (KernelLimits::units).
//
// Blocks of a launch do not talk to each other, so one REDUCE has as many blocks as its result has
// tiles. Chunks of the terms give every processor blocks; a second REDUCE combines the results of
// the chunks (cut_reduce.h). The estimate of the time, in cycles of one processor, is
//
//   waves(tiles) * cycles of a tile                                             of one REDUCE
//   waves(tiles * chunks) * cycles of a chunk + stores and loads of the results
//     of the chunks + launch                                                    of two
//
// A tile is what one block computes: of a product of matrices a square of the result (several sizes
// are tried), else one element, or 32 where neighbouring threads read neighbouring elements of the
// result's last axis. The number of chunks with the least time wins, if it saves a fifth of the
// time of one REDUCE; of equal ones the smallest.
//
// A sum of more than 2^20 floats of 32 bits or less along contiguous memory has at least so many
// chunks that no thread adds over 128 terms to one number: the error of the sum would grow with
// them. A shorter sum gets no more kernels for that.
#pragma once
#include <optional>

#include "core/schedule/fusion/access.h"
#include "core/schedule/prepare/cut_reduce.h"
#include "core/schedule/schedule.h"

namespace uopd::schedule {

// How the REDUCE u is cut for a device of these limits; nullopt: one REDUCE is cheaper, or nothing
// fits. REQUIRES: limits.units > 0.
std::optional<Cut> CutForBlocks(ir::UOpContext& ctx, Accesses& accesses, ir::UOp u,
                                const KernelLimits& limits);

}  // namespace uopd::schedule
