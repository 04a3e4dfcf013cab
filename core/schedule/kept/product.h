// SPDX-License-Identifier: MIT
// Products: sums of products of two operands, such as matrix products and convolutions, and how
// their axes depend on the operands.
#pragma once
#include <algorithm>
#include <optional>
#include <vector>

#include "core/ir/context.h"
#include "core/ir/shape.h"
#include "core/schedule/fusion/access.h"

namespace uopd::schedule {

// One operand of a product.
struct Operand {
  ir::UOp value;  // source of the MUL
  // The value below the movement ops and CASTs: the operand is a view of it.
  ir::UOp base;
  const Access* access = nullptr;  // of the base, over the ranges of Product::index
  uint64_t axes = 0;  // the axes of the product that the operand depends on, a bit each
};

// REDUCE ADD of MUL(a, b), with CASTs anywhere.
struct Product {
  ir::UOp reduce, mul;
  ir::Dims dims;         // of the MUL
  IndexList index;       // a RANGE for each axis; 0 for axes of size 1
  uint64_t reduced = 0;  // the axes that are summed up, a bit each
  Operand a, b;

  bool IsReduced(size_t axis) const { return (reduced >> axis & 1) != 0; }
};

// Nullopt: u is no product, or an axis has a symbolic size.
std::optional<Product> ProductOf(ir::UOpContext& ctx, Accesses& accesses, ir::UOp u);

// The product as one of matrices: rows that only operand a depends on, columns that only b depends
// on, terms of a sum.
struct MatrixSizes {
  int64_t m = 1, n = 1, k = 1;
  int64_t least() const { return std::min({m, n, k}); }
};
MatrixSizes MatrixSizesOf(const Product& p);

// The least side of a product whose tiles blocks of threads compute.
inline constexpr int64_t kLeastTiledSide = 32;

// The axes whose RANGEs the expression depends on.
uint64_t AxesIn(const ir::UOpContext& ctx, const Product& p, ir::UOp expression);

}  // namespace uopd::schedule
