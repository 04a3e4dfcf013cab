// SPDX-License-Identifier: MIT
#include "core/schedule/prepare/split_scan.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "core/base/target/machine_facts.h"
#include "core/ir/analysis/eval.h"
#include "core/ir/build.h"
#include "core/ir/shape.h"
#include "core/schedule/prepare/cut_reduce.h"

namespace uopd::schedule {
namespace {

using ir::Dims;
using ir::Dtype;
using ir::Op;
using ir::UOp;
using ir::UOpContext;

constexpr int64_t kWantedThreads = kUnitThreads / 4;  // for each processor, by cutting rows
constexpr int64_t kEnoughThreads = 64;  // for each processor: with so many rows no cut pays
constexpr int64_t kLeastRow = 2048;     // elements of a row that is cut
constexpr int64_t kLeastChunk = 256;    // elements of a chunk of a very long row

bool CanBeCut(UOp u) {
  if (!ir::IsFloat(u.dtype())) return true;
  return u.reduce_op() == Op::MAX || (u.reduce_op() == Op::ADD && ir::Bits(u.dtype()) >= 32);
}

// Elements of a chunk of a row of n elements, of which there are about n / wanted. A divisor of n
// if there is one near: else the results of the padding have to be cut off.
int64_t ChunkFor(int64_t n, int64_t wanted) {
  for (int64_t more = 0; more < wanted; ++more) {
    if (n % (wanted + more) == 0) return wanted + more;
    if (more < wanted / 2 && n % (wanted - more) == 0) return wanted - more;
  }
  return wanted;
}

std::optional<int64_t> MaybeChunk(const Dims& dims, size_t axis, const KernelLimits& limits) {
  const int64_t n = dims[axis];
  if (n < kLeastRow) return std::nullopt;
  double rows = 1;  // a double: a product of sizes may exceed 64 bits
  for (size_t a = 0; a < dims.size(); ++a) rows *= a == axis ? 1 : static_cast<double>(dims[a]);
  if (rows < 1 || rows >= static_cast<double>(kEnoughThreads * limits.units)) return std::nullopt;
  const auto root = static_cast<int64_t>(std::sqrt(static_cast<double>(n)));
  const int64_t wanted = kWantedThreads * limits.units / static_cast<int64_t>(rows);
  const int64_t chunks = std::clamp<int64_t>(wanted, 2, std::max(n / kLeastChunk, root));
  return ChunkFor(n, (n + chunks - 1) / chunks);
}

}  // namespace

UOp SplitScan(UOpContext& ctx, UOp u, const KernelLimits& limits) {
  const auto axis = static_cast<size_t>(u.reduce_axes()[0]);
  const auto dims = ir::StaticDims(*ctx.ShapeOf(u));
  const auto chunk = dims && CanBeCut(u) ? MaybeChunk(*dims, axis, limits) : std::nullopt;
  if (!chunk) return u;
  const Op op = u.reduce_op();
  const int64_t n = (*dims)[axis], chunks = (n + *chunk - 1) / *chunk;
  const auto at = static_cast<int64_t>(axis), inside = at + 1;
  Dims cut = *dims;
  cut[axis] = *chunk;
  cut.insert(cut.begin() + at, chunks);
  const UOp x = ir::Reshape(ctx, PadForReduce(ctx, op, u.src(0), axis, chunks * *chunk), cut);

  const bool wide = u.dtype() == Dtype::F32 && op == Op::ADD;
  UOp totals = wide ? ir::Cast(ctx, x, Dtype::F64) : x;
  totals = ir::ReduceAxes(ctx, op, totals, std::span(&inside, 1));
  totals = ctx.Make(Op::CONTIGUOUS, totals.dtype(), {totals});
  const UOp sums = SplitScan(ctx, ir::Scan(ctx, op, totals, at), limits);

  // The sum before each chunk but the first one, whose place holds any value.
  Dims rest = cut;
  rest[axis + 1] = 1, rest[axis] = chunks - 1;
  UOp before =
      ir::Shrink(ctx, sums, ir::ShapeArg(ctx, Dims(cut.size(), 0)), ir::ShapeArg(ctx, rest));
  Dims first(cut.size(), 0);
  first[axis] = 1, rest[axis] = chunks;
  before = ir::Pad(ctx, before, ir::ShapeArg(ctx, first), ir::ShapeArg(ctx, rest));
  before = ir::Cast(ctx, before, x.dtype());

  const UOp shape = ir::ShapeArg(ctx, cut), zero = ctx.Int(Dtype::I64, 0);
  const UOp begins = ir::Lt(ctx, ir::Iota(ctx, Dtype::I64, shape, inside), ctx.Int(Dtype::I64, 1)),
            follows = ir::Lt(ctx, zero, ir::Iota(ctx, Dtype::I64, shape, at));
  const UOp terms = ir::Where(ctx, ir::And(ctx, begins, follows), ir::Alu(ctx, op, {x, before}), x);
  Dims padded = *dims;
  padded[axis] = chunks * *chunk;
  const UOp out = ir::Reshape(ctx, ir::Scan(ctx, op, terms, inside), padded);
  if (padded == *dims) return out;
  return ir::Shrink(ctx, out, ir::ShapeArg(ctx, Dims(dims->size(), 0)), ir::ShapeArg(ctx, *dims));
}

}  // namespace uopd::schedule
