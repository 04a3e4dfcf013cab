// SPDX-License-Identifier: MIT
// Facts about the nodes of a tensor graph that fusion decides with, from the sources up.
//
//   device    where the value is, by number; -1 for constants
//   elements  at the largest of every dimension
//   work      operations and loads for one element, see fusion.h; what is read twice counts once, a
//             sum that picks one term counts that term
//   memory_work  the same for consumers: no more than a load if it is taken to be in memory
//   hoisted   the part of work that is of values which broadcast: those are computed outside of the
//             loops that broadcast them, whatever becomes of this one
//   leaves    elements of memory that it is computed from; a reduction that uses each of its inputs
//             often (a matrix product) counts as memory itself
//   reads     marks of what one element is computed from: buffers and reductions, with the way
//             there. Two values of one shape with a mark in common load the same element or compute
//             the same reduction. Each with its part of the work; `rest` is the work of no mark. At
//             most kMaxReads of them, so sharing can be missed.
#pragma once
#include "core/schedule/fusion.h"

namespace uopd::schedule {

inline constexpr size_t kMaxReads = 12;
inline constexpr double kLoadWork = 4;  // of an element from memory, in operations

// Fills f.info, f.storages of slots, f.slot_storage and f.devices. REQUIRES: f.order and f.position
// are there.
absl::Status Describe(ir::UOpContext& ctx, const FusionOptions& options, Fusion& f);

}  // namespace uopd::schedule
