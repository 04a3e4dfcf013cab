// SPDX-License-Identifier: MIT
// Shapes: the rule of every op, and helpers over dimensions.
//
// A dimension is an index-dtype UOp: CONST when concrete, otherwise an expression over DEFINE_VARs
// whose bounds are known. Elementwise ops broadcast right-aligned: missing and size-1 dimensions
// repeat.
#pragma once
#include <optional>

#include "absl/container/inlined_vector.h"
#include "core/base/status.h"
#include "core/ir/context.h"
#include "core/ir/dims.h"

namespace uopd::ir {

using SymbolicDims = absl::InlinedVector<UOp, 6>;

// Concrete dimensions, or nullopt if one is symbolic.
std::optional<Dims> StaticDims(Shape shape);
// The largest value of each dimension. REQUIRES: shape passed Verify.
Dims MaxDims(UOpContext& ctx, Shape shape);

// The broadcast of two shapes, or nullopt.
std::optional<SymbolicDims> BroadcastShapes(Shape a, Shape b);
bool SameShape(Shape a, Shape b);

// The STACK of dimensions that represents a shape as an operand.
UOp ShapeArg(UOpContext& ctx, std::span<const int64_t> dims);
UOp ShapeArg(UOpContext& ctx, Shape dims);

}  // namespace uopd::ir
