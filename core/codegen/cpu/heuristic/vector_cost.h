// SPDX-License-Identifier: MIT
// What vectors along an axis cost: the model by which the heuristic compares axes and lanes.
//
// Invariant: a cost is an estimate of the instructions that all iterations of one axis execute, for
// a number of lanes; the saving is the difference to the scalar loop. Only savings are compared.
#pragma once
#include <optional>

#include "core/codegen/opts/choose/kernel_facts.h"

namespace uopd::codegen {

// Estimated instructions inside the loop over `axis` if it is vectorised by `lanes`; 1: scalar.
double CostOfVectors(const KernelFacts& facts, size_t axis, int64_t lanes);

// Whether vectors of sums along the axis would be stored lane by lane, far apart: tiles of other
// iterations write the same lines.
bool Scatters(const KernelFacts& facts, size_t axis);

// Whether each lane along the axis loads, or does not load, the same element by itself.
bool LoadsByLane(const KernelFacts& facts, const Access& a, size_t axis);

// The instructions of an access to `lanes` lanes along the axis.
double LoadsOf(const KernelFacts& facts, const Access& a, size_t axis, int64_t lanes);

// Whether lanes along the axis that do not lie together will be packed.
bool PacksLanes(const KernelFacts& facts, const Access& a, size_t axis, int64_t lanes);

// How many vectors, with all that the reduction reads of them, private memory has room for.
int64_t PanelVectors(const KernelFacts& facts, const Access& a, int64_t lanes);

// The axis along which the lanes lie next to each other, where as many copies of it as there are
// lanes make a square that is transposed in registers (choose_elementwise.cc).
std::optional<size_t> SquareAxis(const KernelFacts& facts, const Access& x, size_t axis,
                                 int64_t lanes);

}  // namespace uopd::codegen
