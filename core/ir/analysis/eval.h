// SPDX-License-Identifier: MIT
// Reference evaluator: computes every elementwise op on scalars. Rules fold constants with it, and
// rules, renderers and devices are tested against it.
//
// Floats are computed in double and rounded once to the dtype; integers are exact and then wrapped.
#pragma once
#include <optional>
#include <span>

#include "core/ir/uop.h"

namespace uopd::ir {

// One scalar. Integers, index and bool in `i` (u64 as its bit pattern), floats in `f`, rounded to
// the dtype.
struct Scalar {
  Dtype dtype = Dtype::Void;
  int64_t i = 0;
  double f = 0;

  static Scalar Int(Dtype d, Int128 v) { return {d, WrapTo(d, v), 0}; }
  static Scalar Float(Dtype d, double v) { return {d, 0, RoundTo(d, v)}; }
  static Scalar Of(UOp constant);  // REQUIRES: a CONST
  // The mathematical value of an integer.
  Int128 wide() const { return dtype == Dtype::U64 ? Int128{static_cast<uint64_t>(i)} : Int128{i}; }
  bool operator==(const Scalar&) const = default;
};

// Applies an elementwise op giving dtype `out`. Nullopt for an op that has no scalar meaning.
// REQUIRES: number and dtypes of the operands are those Verify demands.
std::optional<Scalar> EvalAlu(Op op, Dtype out, std::span<const Scalar> operands);

// A WMMA of scalars: floats as exact products and sums, rounded once; integers wrap. Operands that
// are missing are not added.
Scalar EvalWmma(UOp wmma, std::span<const Scalar> operands);

// Identity of a reduction op in a dtype (MAX: the lowest value, minus infinity for floats that have
// it).
Scalar ReduceIdentity(Op op, Dtype dtype);

// Threefry-2x32, 20 rounds (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011).
uint64_t Threefry(uint64_t counter, uint64_t key);

}  // namespace uopd::ir
