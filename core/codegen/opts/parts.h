// SPDX-License-Identifier: MIT
// What the opts have in common that split a part off an axis.
#pragma once
#include <vector>

#include "core/codegen/opts/opt_row.h"
#include "core/codegen/opts/plan_state.h"

namespace uopd::codegen {

// INVALID_ARGUMENT if nothing may be split off the axis of the opt.
absl::Status CheckSplits(const Adding& adding, const Opt& opt);

// The part that an opt of an axis takes: its amount, or all iterations that are left.
struct Piece {
  int64_t amount = 1;
  bool divides = true;
};
// Checks the axis, too. `pads`: the amount may be larger than the axis.
absl::StatusOr<Piece> PieceOf(const Adding& adding, const Opt& opt, bool pads = false);

// Splits the part off. An amount that does not divide the axis pads it. A part of one iteration is
// none, except for a panel of a reduced axis: the whole loop is one over panels.
void SplitOff(ir::UOpContext& ctx, PlanAxis& axis, PlanAxis::Part part, bool divides);

// Those of the amounts that the search tries on the axis: without parts as large as the axis, which
// 0 stands for; 0 only if the axis is short. `by_number`: the whole axis is tried as a number
// instead.
std::vector<TriedAmount> FittingParts(std::vector<TriedAmount> amounts, const AxisInfo& axis,
                                      bool by_number = false);

}  // namespace uopd::codegen
