// SPDX-License-Identifier: MIT
// What the model of the search (surrogate.h) knows of a candidate: numbers that tell how its
// program runs.
//
// Counts are of what one thread executes, loops multiplied out, as log2(1 + count), so that a
// factor in a count is a difference. Symbolic sizes count as 64. Stateless.
#pragma once
#include <array>
#include <cstdint>
#include <vector>

#include "core/base/target/target.h"
#include "core/codegen/codegen.h"
#include "core/search/moves.h"

namespace uopd::search {

// Raise it with every change of the numbers or their order.
inline constexpr int kFeaturesVersion = 1;

enum class Feature : uint8_t {
  kArithmetic,   // instructions on registers: simple ones
  kProducts,     // multiplications, with or without a sum
  kSlow,         // divisions, roots, functions
  kVectorLoads,  // from memory, of more than one element
  kScalarLoads,
  kStores,     // to memory
  kPrivate,    // loads and stores of accumulators and shared arrays
  kShuffles,   // vectors made of elements, elements of vectors
  kCasts,      // conversions
  kAddresses,  // integer arithmetic of indices
  kLoops,      // iterations
  kMatrix,     // matrix instructions, in multiplications
  kBarriers,
  kLines,     // of the program, not executed
  kLive,      // most registers that hold values at the same time
  kSpilled,   // of those, more than the target has
  kThreads,   // of the launch, blocks times their threads
  kRounds,    // in which they run
  kEstimate,  // time of a launch as codegen estimates it
  kInner,     // iterations of the loop that most is executed in
  kCount,
};
using Features = std::array<float, static_cast<size_t>(Feature::kCount)>;

// REQUIRES: the kernel was lowered in ctx, and its LINEAR is there.
Features FeaturesOf(ir::UOpContext& ctx, const codegen::LoweredKernel& kernel,
                    const Target& target);

// One number for each kind of opt and axis: log2 of 1 + the amount, where the whole axis is its
// size.
std::vector<float> FeaturesOf(const SearchSpace& kernel, const Opts& opts);

}  // namespace uopd::search
