// SPDX-License-Identifier: MIT
// Polls: where a program that runs long looks whether it is to stop.
//
// A line costs what a slow core takes for it, a loop its body times its most iterations. The cost
// only has to be right within a factor of twenty or so either way: a poll takes about 2 ns, the
// work between two polls about kPollNs, and to stop within 100 ms is soon enough.
#pragma once
#include "core/codegen/codegen.h"

namespace uopd::codegen {

// A thread of a launch that takes longer than this has polls.
inline constexpr double kLongNs = 10e6;
// Work between two polls.
inline constexpr double kPollNs = 250e3;

// About how long one thread of a launch runs. REQUIRES: a linear program.
double ProgramNs(ir::UOpContext& ctx, ir::UOp linear, const Target& target);

// The program with a tag on some RANGEs: every `tag` iterations of that loop it looks at its stop
// word. Only loops that are longer than kPollNs and have no such loop inside are tagged, so that
// what runs hot stays as it is. Meant for a program that takes over kLongNs.
ir::UOp AddPolls(ir::UOpContext& ctx, ir::UOp linear, const Target& target);

}  // namespace uopd::codegen
