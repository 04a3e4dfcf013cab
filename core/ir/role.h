// SPDX-License-Identifier: MIT
// The arg of ROLE (docs/ir_linear.md): which threads of a block execute the lines up to its
// ROLE_END.
//
// The registers of a block are one pool, which a launch deals out evenly. A role may take another
// number of them for each of its threads, if whole groups of four warps have the role and the pool
// holds what all roles take.
#pragma once
#include <algorithm>

#include "core/ir/context.h"

namespace uopd::ir {

struct WarpRole {
  static constexpr size_t kNumbers = 4;
  static constexpr int64_t kPool = 65536;  // registers of a processor, which one block may have
  static constexpr int64_t kStep = 8, kFewest = 24, kMost = 256;  // of a thread
  static constexpr int64_t kGroup = 128;  // threads that change their number of registers together

  int64_t first = 0, count = 0;  // threads
  int64_t active = 0;            // the first ones of them, which execute the lines; the others end
  int64_t registers = 0;         // of each thread; 0: as many as it was launched with

  // REQUIRES: u is a ROLE with kNumbers numbers.
  static WarpRole Of(UOp u) {
    const auto v = u.ints();
    return {v[0], v[1], v[2], v[3]};
  }
  Arg ToArg(UOpContext& ctx) const { return ctx.Data({first, count, active, registers}); }

  // The registers of a thread, if one block of so many threads has all of them.
  static int64_t AtLaunch(int64_t threads) {
    return std::min(kMost, kPool / threads / kStep * kStep);
  }
  // What `others` threads can have, if `few` threads take kFewest registers or a few more, and the
  // pool was dealt out to all of them: a legal number of registers.
  static int64_t Rest(int64_t few_registers, int64_t few, int64_t others) {
    const int64_t pool = AtLaunch(few + others) * (few + others) - few_registers * few;
    return std::min(kMost - kStep, pool / others / kStep * kStep);
  }
};

}  // namespace uopd::ir
