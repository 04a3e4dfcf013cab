// SPDX-License-Identifier: MIT
#include "core/schedule/prepare.h"

#include "core/ir/build.h"
#include "core/ir/shape.h"

namespace uopd::schedule {
namespace {

using ir::Dims;
using ir::Op;
using ir::OpSet;
using ir::UOp;
using ir::UOpContext;

constexpr int64_t kTermsOfAPiece = 1024;  // at least

// The elements of u are those of a buffer, in one run.
bool IsInMemory(UOpContext& ctx, UOp u) {
  while (true) {
    if (u.Is(OpSet{Op::PARAM, Op::CONTIGUOUS, Op::COPY})) return true;
    if (u.Is(Op::RESHAPE)) {
      u = u.src(0);
    } else if (u.Is(Op::SHRINK)) {
      // Rows of the outermost axis, others whole.
      const ir::Shape in = *ctx.ShapeOf(u.src(0)), out = *ctx.ShapeOf(u);
      for (size_t i = 1; i < in.size(); ++i) {
        if (in[i] != out[i]) return false;
      }
      u = u.src(0);
    } else if (u.Is(Op::AFTER)) {
      u = u.src(0);
    } else {
      return false;
    }
  }
}

// The largest divisor of n that is at most `most`.
int64_t DivisorUpTo(int64_t n, int64_t most) {
  for (int64_t d = std::min(n, most); d > 1; --d) {
    if (n % d == 0) return d;
  }
  return 1;
}

UOp SplitReduce(UOpContext& ctx, UOp u) {
  const UOp x = u.src(0);
  const auto dims = ir::StaticDims(*ctx.ShapeOf(x));
  if (!dims) return u;
  ir::Int128 terms = 1, elements = 1;
  for (int64_t d : *dims) elements *= d;
  for (int64_t a : u.reduce_axes()) terms *= (*dims)[static_cast<size_t>(a)];
  if (elements == 0 || terms < kSplitTerms || elements / terms >= kEnoughElements) return u;
  const auto most = static_cast<int64_t>(
      std::min<ir::Int128>(kEnoughElements / (elements / terms), terms / kTermsOfAPiece));
  // The outermost axis that splits, so that a piece is one run of memory.
  size_t axis = dims->size();
  int64_t pieces = 1;
  for (int64_t a : u.reduce_axes()) {
    pieces = DivisorUpTo((*dims)[static_cast<size_t>(a)], most);
    axis = static_cast<size_t>(a);
    if (pieces >= 4) break;
  }
  UOp padded = x;
  Dims split = *dims;
  if (pieces < 4) {
    // Sizes like primes: zeros at the end of the longest axis change no sum.
    if (u.reduce_op() != Op::ADD || most < 4) return u;
    for (int64_t a : u.reduce_axes()) {
      if (split[static_cast<size_t>(a)] > split[axis]) axis = static_cast<size_t>(a);
    }
    pieces = most;
    split[axis] = (split[axis] + pieces - 1) / pieces * pieces;
    padded = ir::Pad(ctx, x, ir::ShapeArg(ctx, Dims(split.size(), 0)), ir::ShapeArg(ctx, split));
  }
  const auto at = static_cast<std::ptrdiff_t>(axis);
  split[axis] /= pieces;
  split.insert(split.begin() + at, pieces);
  Dims inner;
  for (int64_t a : u.reduce_axes()) inner.push_back(a + (a >= at ? 1 : 0));
  const UOp partial = ir::ReduceAxes(ctx, u.reduce_op(), ir::Reshape(ctx, padded, split), inner);
  const UOp kept = ctx.Make(Op::CONTIGUOUS, u.dtype(), {partial});
  const int64_t outer = at;
  return ir::Reshape(ctx, ir::ReduceAxes(ctx, u.reduce_op(), kept, std::span(&outer, 1)),
                     ir::ShapeArg(ctx, *ctx.ShapeOf(u)));
}

// Sources [0, half) and the rest, each a STACK, chosen by the position along the new axis.
UOp SplitStack(UOpContext& ctx, UOp u, size_t most) {
  const size_t n = u.n_src();
  if (n <= most) return u;
  const size_t half = n / 2;
  ir::SymbolicDims shape(ctx.ShapeOf(u)->begin(), ctx.ShapeOf(u)->end());
  const UOp whole = ir::ShapeArg(ctx, shape);
  auto part = [&](size_t from, size_t to) {
    const UOp stack =
        SplitStack(ctx, ctx.Make(Op::STACK, u.dtype(), u.srcs().subspan(from, to - from)), most);
    ir::SymbolicDims before(shape.size(), ctx.Idx(0));
    before[0] = ctx.Idx(static_cast<int64_t>(from));
    return ir::Pad(ctx, stack, ir::ShapeArg(ctx, before), whole);
  };
  const UOp place = ir::Iota(ctx, ir::Dtype::I32, whole, 0);
  const UOp first = ir::Lt(ctx, place, ctx.Int(ir::Dtype::I32, static_cast<ir::Int128>(half)));
  return ir::Where(ctx, first, part(0, half), part(half, n));
}

}  // namespace

UOp Prepare(UOpContext& ctx, const std::vector<UOp>& order, size_t stack) {
  std::vector<UOp> done(ctx.size());
  // Values that count positions: reductions over those may pick single elements, which a kernel can
  // fetch without looping. Splitting would hide that.
  std::vector<bool> counts(ctx.size(), false);
  ir::SymbolicDims srcs;
  for (UOp u : order) {
    srcs.clear();
    bool counting = u.Is(Op::IOTA);
    for (UOp s : u.srcs()) {
      srcs.push_back(done[s.id()]);
      counting |= counts[s.id()];
    }
    counts[u.id()] =
        counting && (u.Is(Op::IOTA) || u.Is(ir::kElementwiseOps) || u.Is(ir::kMovementOps));
    if (u.Is(OpSet{Op::BIND, Op::DETACH, Op::CONTIGUOUS_BACKWARD})) {
      done[u.id()] = srcs[0];
      continue;
    }
    UOp made = ctx.WithSources(u, srcs);
    if (made.Is(Op::CONTIGUOUS) && IsInMemory(ctx, srcs[0])) {
      made = srcs[0];
    } else if (made.Is(Op::REDUCE) && !counting) {
      made = SplitReduce(ctx, made);
    } else if (made.Is(Op::STACK) && u.dtype() != ir::Dtype::Index) {
      made = SplitStack(ctx, made, stack);
    }
    done[u.id()] = made;
  }
  return done[order.back().id()];
}

}  // namespace uopd::schedule
