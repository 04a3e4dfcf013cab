// SPDX-License-Identifier: MIT
// Whether the heuristic computes a row that a kernel stages in key tiles (ONLINE;
// attention/online/online.h).
//
// On a CPU it does so where the arrays of one row do not fit in Target::private_bytes. For rows
// that fit no difference could be measured. With blocks it does so where shared memory has no room
// for the arrays of 4 rows: the rows of a block share what it loads.
#pragma once
#include <optional>

#include "core/codegen/codegen.h"

namespace uopd::codegen {

struct OnlineRowChoice {
  Opt opt;
  ir::UOp sink;  // the kernel with this opt: further opts count its axes
};

// Nothing if the arrays fit, or if ONLINE does not apply. Thread-safe for different contexts.
std::optional<OnlineRowChoice> ChooseOnline(ir::UOpContext& ctx, ir::UOp sink,
                                            const Target& target);

}  // namespace uopd::codegen
