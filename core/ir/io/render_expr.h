// SPDX-License-Identifier: MIT
// Prints a graph as one expression in the syntax of C, for people who read logs, traces and
// messages. The result is not meant to be compiled.
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

// Stops with "..." after about `max_chars`: a graph with shared nodes can have an expression of
// exponential length. Not recursive.
std::string RenderExpr(UOp root, size_t max_chars = 200);

}  // namespace uopd::ir
