// SPDX-License-Identifier: MIT
// How the accesses of a warp to shared memory of a linear kernel meet its banks.
#pragma once
#include <string>
#include <vector>

#include "core/ir/context.h"

namespace uopd::tests {

// A LOAD, a STORE, or another access of a shared array.
struct SharedAccess {
  ir::UOp line;
  // The most words of one bank that one part of the access reads or writes one after the other: 1
  // is without conflicts. A part is what 32 banks can serve: all lanes of an access of one word,
  // eight of one of four words.
  int64_t words_of_one_bank = 0;
};

// All accesses of the first `lanes` threads, in the first iteration of every loop and the first
// block. Accesses whose address depends on memory, and gated lanes, do not count.
std::vector<SharedAccess> SharedAccesses(ir::UOpContext& ctx, ir::UOp linear, int64_t lanes);

}  // namespace uopd::tests
