// SPDX-License-Identifier: MIT
// Functions that make nodes and derive their dtypes. They do not verify the nodes: callers with
// input from outside call VerifyNode (spec.h) on the result.
#pragma once
#include <initializer_list>

#include "core/ir/context.h"
#include "core/ir/shape.h"

namespace uopd::ir {

// Elementwise ops. The dtype is that of the operands; bool for comparisons; that of the last two
// operands for WHERE.
UOp Alu(UOpContext& ctx, Op op, std::initializer_list<UOp> src);
inline UOp Add(UOpContext& ctx, UOp a, UOp b) { return Alu(ctx, Op::ADD, {a, b}); }
inline UOp Sub(UOpContext& ctx, UOp a, UOp b) { return Alu(ctx, Op::SUB, {a, b}); }
inline UOp Mul(UOpContext& ctx, UOp a, UOp b) { return Alu(ctx, Op::MUL, {a, b}); }
inline UOp And(UOpContext& ctx, UOp a, UOp b) { return Alu(ctx, Op::AND, {a, b}); }
inline UOp Lt(UOpContext& ctx, UOp a, UOp b) { return Alu(ctx, Op::CMPLT, {a, b}); }
inline UOp Where(UOpContext& ctx, UOp c, UOp a, UOp b) { return Alu(ctx, Op::WHERE, {c, a, b}); }
inline UOp Not(UOpContext& ctx, UOp a) { return Alu(ctx, Op::CMPNE, {a, ctx.Bool(true)}); }
UOp Cast(UOpContext& ctx, UOp x, Dtype dtype);  // x itself if it has the dtype
UOp Bitcast(UOpContext& ctx, UOp x, Dtype dtype);

// Quotients and remainders of two values of one dtype, integer or float.
//   Trunc   The quotient is rounded toward zero; the remainder has the sign of a (as in C).
//   Floor   The quotient is rounded down; the remainder has the sign of b (as in Python).
// Integers take one op; division by zero gives 0. For floats, the remainder is a - b * quotient,
// computed in the dtype: exact while the quotient is exact (below 2^24 in f32), rounded otherwise.
UOp TruncDiv(UOpContext& ctx, UOp a, UOp b);
UOp TruncMod(UOpContext& ctx, UOp a, UOp b);
UOp FloorDiv(UOpContext& ctx, UOp a, UOp b);
UOp FloorMod(UOpContext& ctx, UOp a, UOp b);
// A float rounded down; NaN, infinities and -0 stay.
UOp Floor(UOpContext& ctx, UOp x);

// The bytes of x's elements read as another dtype, as NumPy's view: the last axis shrinks or grows
// by the ratio of the widths, lowest bytes first. Made of BITCAST, shifts and RESHAPE.
// INVALID_ARGUMENT if the last axis does not divide, and for bool and index. A symbolic axis
// divides where it is a multiple of the ratio by its form: 4 * v, v * 8 + 4.
absl::StatusOr<UOp> BitcastWidth(UOpContext& ctx, UOp x, Dtype dtype);

// Movement ops. `shape`, `before` and `starts` are STACKs of index values, which may be symbolic.
UOp Reshape(UOpContext& ctx, UOp x, UOp shape);
UOp Reshape(UOpContext& ctx, UOp x, std::span<const int64_t> dims);
UOp Expand(UOpContext& ctx, UOp x, UOp shape);
UOp Expand(UOpContext& ctx, UOp x, std::span<const int64_t> dims);
UOp Permute(UOpContext& ctx, UOp x, std::span<const int64_t> order);
UOp Pad(UOpContext& ctx, UOp x, UOp before, UOp shape);
UOp Shrink(UOpContext& ctx, UOp x, UOp starts, UOp shape);
// The inverse of `move`, a RESHAPE, PERMUTE, FLIP, SHRINK or PAD of a value of this shape: x, which
// has the shape of `move`, at its place there. It is zero outside of a SHRINK; the padding of a PAD
// is cut off.
UOp MovedBack(UOpContext& ctx, UOp x, UOp move, UOp shape);
UOp Flip(UOpContext& ctx, UOp x, std::span<const int64_t> axes);

// Reduction over axes, which keep size 1 (tensor level), or over ranges (kernel level).
UOp ReduceAxes(UOpContext& ctx, Op op, UOp x, std::span<const int64_t> axes);
UOp ReduceRanges(UOpContext& ctx, Op op, UOp x, std::span<const UOp> ranges);
UOp Scan(UOpContext& ctx, Op op, UOp x, int64_t axis);
UOp ScanRanges(UOpContext& ctx, Op op, UOp x, std::span<const UOp> ranges);
// STAGE: an array of `size` elements inside of a kernel, one for each iteration of the loops around
// it. Each iteration of `ranges` sets element `index` to `value` if the gate is true. INDEX reads
// it.
UOp Staged(UOpContext& ctx, UOp value, int64_t size, UOp index, UOp maybe_gate,
           std::span<const UOp> ranges);

UOp Param(UOpContext& ctx, int64_t slot, Dtype dtype, UOp shape, std::string_view device = {});
UOp Buffer(UOpContext& ctx, int64_t slot, Dtype dtype, UOp shape, AddrSpace space,
           std::string_view device = {});
UOp Variable(UOpContext& ctx, std::string_view name, int64_t min, int64_t max);
UOp FloatVariable(UOpContext& ctx, std::string_view name, Dtype dtype);
UOp Iota(UOpContext& ctx, Dtype dtype, UOp shape, int64_t axis);
UOp Range(UOpContext& ctx, UOp size, int64_t axis_id, AxisType type);
UOp Index(UOpContext& ctx, UOp buffer, UOp index, UOp maybe_gate = UOp(), int64_t lanes = 0);
UOp Load(UOpContext& ctx, UOp index);
UOp Store(UOpContext& ctx, UOp target, UOp value);
UOp After(UOpContext& ctx, UOp x, std::span<const UOp> deps);
UOp After(UOpContext& ctx, UOp x, std::initializer_list<UOp> deps);
UOp End(UOpContext& ctx, UOp statement, std::span<const UOp> ranges);
UOp Sink(UOpContext& ctx, std::span<const UOp> roots);
UOp KernelSink(UOpContext& ctx, std::span<const UOp> roots, std::string_view name);

}  // namespace uopd::ir
