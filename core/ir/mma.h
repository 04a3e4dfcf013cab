// SPDX-License-Identifier: MIT
// The arg of MMA, a matrix instruction of a warp (docs/ir_linear.md).
#pragma once
#include "core/ir/context.h"

namespace uopd::ir {

struct Mma {
  int64_t m = 0, n = 0, k = 0;       // of the matrices
  int64_t a = 0, b = 0;              // dtype numbers of the elements
  int64_t lanes = 0;                 // of the warp
  int64_t a_words = 0, b_words = 0;  // 32-bit words of an operand in one lane

  // Elements of the sum in one lane.
  int64_t results() const { return lanes > 0 ? m * n / lanes : 0; }

  Arg ToArg(UOpContext& ctx) const { return ctx.Data({m, n, k, a, b, lanes, a_words, b_words}); }
  // REQUIRES: u is an MMA that VerifyNode accepts.
  static Mma Of(UOp u) {
    const auto v = u.ints();
    return {v[0], v[1], v[2], v[3], v[4], v[5], v[6], v[7]};
  }
};

}  // namespace uopd::ir
