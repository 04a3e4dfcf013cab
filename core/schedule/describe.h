// SPDX-License-Identifier: MIT
// Facts about the nodes of a tensor graph that fusion decides with, from the sources up.
//
// Those of the graph itself:
//
//   device    where the value is, by number; -1 for constants
//   elements  at the largest of every dimension
//   leaves    elements of memory that it is computed from; a reduction that uses each of its inputs
//             often (a matrix product) counts as memory itself
//
// Those that depend on what is taken to be in memory:
//
//   work      operations and loads for one element, see fusion.h; what is read twice counts once, a
//             sum that picks one term counts that term
//   hoisted   the part of work that is of values which broadcast: those are computed outside of the
//             loops that broadcast them, whatever becomes of this one
//   memory_work  the same for consumers: no more than a load if it is taken to be in memory
//   reads     marks of what one element is computed from: buffers and reductions, with the way
//             there. Two values of one shape with a mark in common load the same element or compute
//             the same reduction. Each with its part of the work; `rest` is the work of no mark. At
//             most kMaxReads of them, so sharing can be missed.
#pragma once
#include "core/schedule/fusion.h"

namespace uopd::schedule {

inline constexpr size_t kMaxReads = 12;
inline constexpr double kLoadWork = 4;  // of an element from memory, in operations

// Operations of one element of an op, relative to an addition.
double OpWork(ir::UOp u);

// A graph (its nodes, sources first) with the facts of its own, its slots and its devices, and no
// decision. INVALID_ARGUMENT if it mixes values on several devices.
absl::StatusOr<Fusion> Describe(ir::UOpContext& ctx, std::vector<ir::UOp> order,
                                std::string_view default_device);

// Fills in the others.
void Weigh(ir::UOpContext& ctx, const FusionOptions& options, Fusion& f);

}  // namespace uopd::schedule
