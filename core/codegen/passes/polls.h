// SPDX-License-Identifier: MIT
// Polls: the places where a long-running kernel checks the stop word of its launch.
//
// A cost model estimates run time: a line costs what a slow core needs for it, a loop costs its
// body times its largest number of iterations. The estimate may be wrong by a factor of about
// twenty in either direction: a poll takes about 2 ns, the work between two polls about
// Machine::poll_ns, and stopping within 100 ms is fast enough.
#pragma once
#include "core/codegen/codegen.h"

namespace uopd::codegen {

// Kernels get polls if one thread of the launch is estimated to run longer than this.
inline constexpr double kLongNs = 10e6;
// If the blocks of a long launch (Machine::long_launch_ns) are shorter than this, there are so many
// that their polls would take the bus for longer than they run: a read of the host's memory takes
// half a microsecond of it. The launch gets fewer blocks (PERSIST), which poll in their loops.
inline constexpr double kShortBlockNs = 300e3;

// Estimated run time of one thread of a launch. REQUIRES: a linear kernel.
double ProgramNs(ir::UOpContext& ctx, ir::UOp linear, const Target& target);

// The kernel with a tag on some RANGEs: a loop with tag n polls before every n iterations. Tags go
// to the innermost loops that are estimated to run longer than Machine::poll_ns, so the hot loops
// inside of them do not change. Call it for kernels over kLongNs.
ir::UOp AddPolls(ir::UOpContext& ctx, ir::UOp linear, const Target& target);
// The kernel with the tag 1 on its LINEAR: blocks poll before they begin.
ir::UOp PollAtStart(ir::UOpContext& ctx, ir::UOp linear);

}  // namespace uopd::codegen
