// SPDX-License-Identifier: MIT
// The moves of the beam search: from one list of opts to the neighbouring lists.
//
// Stateless and deterministic: results and their order depend only on the arguments.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "core/codegen/codegen.h"
#include "core/codegen/opts/opt_row.h"

namespace uopd::search {

// Only so many axes of a kernel are tuned: the outer ones.
inline constexpr int kMaxAxes = 8;

using codegen::AxisInfo;
using codegen::SearchSpace;
// What the opts of a kernel may name.
SearchSpace SpaceOf(const ir::UOpContext& ctx, ir::UOp sink);

using Opts = std::vector<codegen::Opt>;

// Sorts opts by kind, in the order of codegen::OptRows, then by axis. In this order opts of all
// kinds can apply together, and the same decisions always give the same list.
Opts Canonical(Opts opts);

// The product of the amounts of UPCAST and UNROLL: the factor by which opts multiply code size. A
// whole axis of symbolic size counts as 1.
int64_t UnrolledElements(std::span<const AxisInfo> axes, const Opts& opts);

// All canonical lists that are one step away: one more opt, one opt with another amount or along
// another axis, or one opt less. Obviously illegal ones are left out; codegen::Lower decides about
// the others. Each row of the table of opts says which of its opts are tried (OptRow::amounts,
// OptRow::moves). A list has at most one opt of each kind per axis, but any MERGEs.
std::vector<Opts> Neighbours(const SearchSpace& kernel, const Target& target, const Opts& opts);

}  // namespace uopd::search
