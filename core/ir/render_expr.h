// SPDX-License-Identifier: MIT
// A graph as one expression in the syntax of C, for people: logs, traces, messages. Not for
// compilers.
//
//   ((r0*4)+r1)%16
//   p0[(r0*8)+r1] = p1[r0] < 0 ? 0 : p1[r0]
//
// Ranges are r0 (LOOP), R0 (REDUCE), t, g, l, u, U, v for the other axis types; variables have
// their names, PARAMs are p0, BUFFERs b0. As in patterns, / and % of integers round down; cdiv and
// cmod round toward zero. A node used twice is written twice.
#pragma once
#include <cstddef>
#include <string>

#include "core/ir/uop.h"

namespace uopd::ir {

// Stops with "..." after about `max_chars`, so that shared graphs cannot explode. Iterative.
std::string RenderExpr(UOp root, size_t max_chars = 200);

}  // namespace uopd::ir
