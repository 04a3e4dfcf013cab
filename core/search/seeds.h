// SPDX-License-Identifier: MIT
// Seeds: lists of opts to start a search from, besides the heuristic's choice.
//
// Kernels for CPUs differ most in which axis fills the vectors and which one the registers: from
// one such choice to another there is no way by single moves that all make the kernel faster. So
// each choice has a seed: VECTOR along one axis, UPCAST of another one, or of two, so that the sums
// fill the registers (a tile, as in K. Goto and R. van de Geijn, "Anatomy of high-performance
// matrix multiplication", 2008), THREAD of the outermost one that has work for all threads. A wide
// sum has VECTOR and UNROLL along one reduced axis.
#pragma once
#include <vector>

#include "core/search/moves.h"

namespace uopd::search {

// Canonical lists, all different; codegen::Lower decides which are legal. First comes one for each
// axis that may fill the vectors. Empty for targets with blocks. Deterministic.
std::vector<Opts> Seeds(const SearchSpace& kernel, const Target& target);

}  // namespace uopd::search
