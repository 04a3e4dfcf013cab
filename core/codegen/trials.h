// SPDX-License-Identifier: MIT
// The decisions that need a trial: what decides them is known only of
// a kernel that later rows of the table have made. A row runs these rows on a copy of the kernel,
// looks at what they make, and decides. Then the table goes on, once.
//
// A trial ends with the first row that shows what is asked for, and is made only where its answer
// is open. Its rewrites are recorded in the group "trial" of the row.
#pragma once
#include "core/base/status.h"

namespace uopd::codegen {

struct KernelWork;

// Opts for the rows of whole tiles (ChooseMatrixTile) are of use only if tiles are made: the sums
// of so many rows do not fit in vector registers. If none is made, the opts are chosen again for
// the target without such instructions.
absl::Status CheckTiles(KernelWork& work);

// A long launch of very many short blocks gets PERSIST: their polls would take the bus for longer
// than they run (passes/polls.h).
absl::Status CheckBlocks(KernelWork& work);

// Decides KernelWork::way before PIPELINE is applied. Copies of boxes need room for their barriers,
// and loops around such copies do not poll; threads that copy alone cannot wait for the block. What
// does not fit is left out: first the threads, then the boxes.
absl::Status ChooseCopies(KernelWork& work);

}  // namespace uopd::codegen
