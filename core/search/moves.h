// SPDX-License-Identifier: MIT
// The steps of the search: from the opts of one kernel to those of its neighbours.
//
// Stateless and deterministic: the order of the result depends on the arguments alone.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "core/codegen/codegen.h"

namespace uopd::search {

// What the search knows of one axis of the kernel: a RANGE, numbered as Opt::axis.
struct AxisInfo {
  int64_t size = 0;  // iterations; 0: symbolic
  bool is_reduce = false;
};
std::vector<AxisInfo> AxesOf(const ir::UOpContext& ctx, ir::UOp sink);

using Opts = std::vector<codegen::Opt>;

// The order in which opts of different kinds can all apply (THREAD, VECTOR, UPCAST, UNROLL, then by
// axis), so that the same decisions taken in another order are the same candidate.
Opts Canonical(Opts opts);

// Elements that one iteration of the kernel's loops computes: what opts multiply code size by.
int64_t UnrolledElements(std::span<const AxisInfo> axes, const Opts& opts);

// Every canonical opts list that is one step away: one opt more, one with another amount, one less.
// Obviously illegal ones are left out; codegen::Lower has the last word. Amounts come from an
// action table that depends on the target; there is at most one opt of a kind on an axis.
std::vector<Opts> Neighbours(std::span<const AxisInfo> axes, const Target& target,
                             const Opts& opts);

}  // namespace uopd::search
