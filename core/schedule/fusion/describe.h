// SPDX-License-Identifier: MIT
// Facts about the nodes of a tensor graph (NodeInfo). They are computed from the sources upward,
// before fusion, which decides by them.
//
// Describe computes the facts that depend on the graph alone, once:
//
//   device    number of the device that has the value; -1: a value that needs no device
//   elements  number of elements, with every dimension at its largest
//   leaves    number of elements in memory that the value is computed from. A heavy reduction, one
//             that uses each of its inputs several times (a matrix product), counts as memory.
//   heavy     the node is such a reduction
//
// Weigh computes the facts that depend on which values are assumed to be in memory
// (FusionOptions::in_memory), before each attempt to fuse:
//
//   work         operations and loads for one element, see fusion.h. Values that are read twice
//                count once; a sum that picks one term (picks.h) counts one term.
//   hoisted      the part of `work` spent on sources that are broadcast. These are computed outside
//                of the loops that broadcast them, whether or not this node is realised.
//   memory_work  `work` as consumers see it: at most a load if the value is assumed to be in memory
//   reads        marks of the buffers and reductions that one element is computed from. A mark is a
//                hash of the source and of the movement ops between. Two values of equal shape with
//                a common mark load the same element or compute the same reduction. Each mark has
//                its share of the work. At most kMaxReads marks are kept, so that fusion may miss
//                common reads.
//   rest         the share of `work` that belongs to no mark
//   products     the heavy reductions that one element is computed from
#pragma once
#include "core/schedule/fusion/fusion.h"

namespace uopd::schedule {

inline constexpr size_t kMaxReads = 12;
inline constexpr size_t kMaxProducts = 4;
inline constexpr double kLoadWork = 4;  // cost of loading an element, in operations

// Cost of one element of the op, in additions; 0 for ops that are not elementwise.
double OpWork(ir::UOp u);

// A Fusion without decisions: the graph, its facts, storages of its slots, and its devices. `order`
// is the graph, sources first. INVALID_ARGUMENT if an op mixes values on several devices.
absl::StatusOr<Fusion> Describe(ir::UOpContext& ctx, std::vector<ir::UOp> order,
                                std::string_view default_device);

// Computes the facts that depend on options.in_memory.
void Weigh(ir::UOpContext& ctx, const FusionOptions& options, Fusion& f);

}  // namespace uopd::schedule
