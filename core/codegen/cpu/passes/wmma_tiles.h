// SPDX-License-Identifier: MIT
// Whole tiles of matrices, for instructions that multiply them (MatrixInstruction with m > 1, such
// as those of AMX).
//
// UPCAST of rows and VECTOR of columns give a grid of sums: row i and column j of the grid add up
// the products of word (i, k) of one matrix and word (k, j) of another one, for all k. This pass
// finds grids of 16 or 32 rows and 1 or 2 vectors whose words lie at constant distances in memory,
// and replaces their REDUCEs by loads from an array that one WMMA_BLOCK fills. Sums over further
// loops stay REDUCEs, of what the array holds in each of their iterations.
//
// What is no such grid stays as it is.
#pragma once
#include "core/base/target/target.h"
#include "core/ir/context.h"

namespace uopd::codegen {

// REQUIRES: no UPCAST, UNROLL or VECTOR ranges are left (Vectorise).
ir::UOp MakeWmmaTiles(ir::UOpContext& ctx, ir::UOp sink, const Target& target);

// The most words along the sum of one WMMA_BLOCK, which does not poll the stop word.
inline constexpr int64_t kMostTileWords = 1 << 16;

}  // namespace uopd::codegen
