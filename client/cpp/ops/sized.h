// SPDX-License-Identifier: MIT
// Helpers for tensors with symbolic sizes. Internal to the library.
//
// Most operations are the same for sizes that are numbers and for those that are not. Those that
// divide an axis, or count along it in steps that the graph must know, work on a box: the tensor
// padded to its largest sizes. Of the result the corner is kept that belongs to the sizes of now.
#pragma once
#include <optional>

#include "client/cpp/graph/build.h"
#include "core/ir/shape.h"

namespace uopd::client {

inline ir::SymbolicDims SizesOf(const Tensor& t) {
  const ir::Shape shape = ShapeOf(t);
  return {shape.begin(), shape.end()};
}
// Sums, differences and products of sizes, in one form for each value.
ir::UOp SumOf(ir::UOpContext& ctx, ir::UOp a, ir::UOp b);
ir::UOp DifferenceOf(ir::UOpContext& ctx, ir::UOp a, ir::UOp b);
ir::UOp ProductOf(ir::UOpContext& ctx, ir::UOp a, ir::UOp b);
// The quotient, rounded down. REQUIRES: by > 0.
ir::UOp QuotientOf(ir::UOpContext& ctx, ir::UOp a, int64_t by);
// The quotient if it is exact for all values of the variables and `by` is a product, such as 4 * n;
// else null.
ir::UOp MaybeQuotient(ir::UOpContext& ctx, ir::UOp a, ir::UOp by);
ir::UOp LargerOf(ir::UOpContext& ctx, ir::UOp a, ir::UOp b);
ir::UOp SmallerOf(ir::UOpContext& ctx, ir::UOp a, ir::UOp b);
// True if a size is at least 0 for all values of its variables.
bool IsNatural(ir::UOpContext& ctx, ir::UOp size);

// A size as a scalar tensor of i64 in the graph of t.
Tensor SizeTensor(const Tensor& t, ir::UOp size);
// A size as a scalar tensor of the dtype of t, in the graph of t.
Tensor SizeAs(const Tensor& t, ir::UOp size);
// 0, 1, 2, ... below n.
Tensor IotaOf(const Tensor& t, ir::UOp n, Dtype dtype);

// t as it is if its sizes are numbers, else with its largest sizes. The new elements are `fill`, a
// scalar of its dtype, or 0.
Tensor Boxed(const Tensor& t, Site site, const Tensor* fill = nullptr);
// The first elements along every axis.
Tensor Cornered(const Tensor& t, const ir::SymbolicDims& sizes, Site site);

// f of x. If x has symbolic sizes, f is taken of its box, and of the result the first elements
// along every axis are kept. For functions of which an element is computed from no elements behind
// it.
template <class F>
Tensor InBox(const Tensor& x, Site site, F f) {
  return x.is_symbolic() ? Cornered(f(Boxed(x, site)), SizesOf(x), site) : f(x);
}

// Positions in an axis of t, counted from the start; beyond every axis where there is none.
Tensor FromStart(const Tensor& index, const Tensor& t, int64_t axis, Site site);

// Tensor::Expand to these sizes.
Tensor ExpandTo(const Tensor& t, const ir::SymbolicDims& sizes, std::string_view what, Site site);

// The size of an axis now: of one that is made of variables its largest one, if these have no
// values.
int64_t SizeNow(const Tensor& t, size_t axis);

// The sizes of an operation's arguments in the graph of t.
absl::StatusOr<ir::SymbolicDims> SizesIn(const Tensor& t, std::span<const Size> sizes);

// Elements begin to end along an axis, as Python's slices: what is negative counts from the end,
// and what is beyond is cut off.
Tensor SliceOf(const Tensor& t, int64_t axis, const std::optional<Size>& begin,
               const std::optional<Size>& end, Site site);

}  // namespace uopd::client
