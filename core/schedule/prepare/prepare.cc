// SPDX-License-Identifier: MIT
#include "core/schedule/prepare/prepare.h"

#include <algorithm>
#include <cmath>

#include "core/ir/build.h"
#include "core/ir/shape.h"
#include "core/schedule/fusion/describe.h"

namespace uopd::schedule {
namespace {

using ir::Dims;
using ir::Op;
using ir::OpSet;
using ir::UOp;
using ir::UOpContext;

constexpr int64_t kMinTermsPerChunk = 1024;
constexpr int64_t kChunks = 256;  // chunks of all elements together: more than a device has threads
constexpr int64_t kTile = 64;     // elements of the innermost axis that one iteration computes
// Least work for which codegen uses one more thread: 65536 terms of one load and one addition.
constexpr double kWorkPerThread = 5 << 16;
constexpr size_t kMaxNodesOfATerm = 32;  // nodes that WorkOf visits

// True if the elements of u are consecutive elements of a buffer, in the same order.
bool IsInMemory(UOpContext& ctx, UOp u) {
  while (true) {
    if (u.Is(OpSet{Op::PARAM, Op::CONTIGUOUS, Op::COPY})) return true;
    if (u.Is(Op::RESHAPE)) {
      u = u.src(0);
    } else if (u.Is(Op::SHRINK)) {
      // Only the outermost axis may be cut.
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

// The number of threads that codegen would use for this much work in this many iterations.
int64_t ThreadsFor(int64_t iterations, double work, int64_t threads) {
  for (int64_t t = threads; t > 1; --t) {
    if (work < kWorkPerThread * static_cast<double>(t)) continue;
    if (iterations % t == 0 || iterations >= 8 * t) return t;
  }
  return 1;
}

// Operations of one term, down to values in memory and other reductions. Visits at most
// kMaxNodesOfATerm nodes.
double WorkOf(UOp x) {
  double work = 0;
  std::vector<UOp> stack = {x}, seen;
  while (!stack.empty() && seen.size() < kMaxNodesOfATerm) {
    const UOp u = stack.back();
    stack.pop_back();
    if (u.Is(Op::CONST) || std::ranges::find(seen, u) != seen.end()) continue;
    seen.push_back(u);
    if (u.Is(ir::kElementwiseOps)) {
      work += OpWork(u);
      stack.insert(stack.end(), u.srcs().begin(), u.srcs().end());
    } else if (u.Is(ir::kMovementOps)) {
      stack.push_back(u.src(0));
    } else {
      work += kLoadWork;
    }
  }
  return work;
}

// The REDUCE u as two if that is cheaper (prepare.h); else u.
UOp SplitReduce(UOpContext& ctx, UOp u, const Options& options) {
  const int64_t threads = options.LimitsFor(u.src(0)).threads;
  const UOp x = u.src(0);
  const auto dims = threads > 1 ? ir::StaticDims(*ctx.ShapeOf(x)) : std::nullopt;
  if (!dims) return u;
  ir::Int128 all = 1, terms = 1, iterations = 1;
  for (size_t a = 0; a < dims->size(); ++a) {
    const int64_t d = (*dims)[a];
    all *= d;
    if (std::ranges::find(u.reduce_axes(), static_cast<int64_t>(a)) != u.reduce_axes().end())
      terms *= d;
    else
      iterations *= a + 1 < dims->size() ? d : std::max<int64_t>(d / kTile, 1);
  }
  if (all == 0 || all > ir::Int128{1} << 60) return u;
  const ir::Int128 elements = all / terms;
  if (terms < 2 * kMinTermsPerChunk) return u;
  // Most reductions have enough iterations for all threads, so their work need not be computed.
  const auto loops = static_cast<int64_t>(iterations);
  if (ThreadsFor(loops, INFINITY, threads) == threads) return u;
  const double work = static_cast<double>(all) * (WorkOf(x) + 1);
  const int64_t few = ThreadsFor(loops, work, threads);
  const auto most = static_cast<int64_t>(std::min<ir::Int128>(
      std::max<ir::Int128>(kChunks / elements, threads), terms / kMinTermsPerChunk));
  const int64_t least = std::min<int64_t>(most, 4);
  // Split the outermost axis that has a suitable divisor, so that a chunk is consecutive in memory.
  size_t axis = dims->size();
  int64_t chunks = 1;
  for (int64_t a : u.reduce_axes()) {
    chunks = DivisorUpTo((*dims)[static_cast<size_t>(a)], most);
    axis = static_cast<size_t>(a);
    if (chunks >= least) break;
  }
  const int64_t many = ThreadsFor(chunks >= least ? chunks : most, work, threads);
  const double saved = work / static_cast<double>(few) - work / static_cast<double>(many);
  const double stored = static_cast<double>(elements) * static_cast<double>(most);
  if (saved <= stored * (options.realise_cost + kLoadWork) + options.launch_cost) return u;
  UOp padded = x;
  Dims split = *dims;
  if (chunks < least) {
    // No axis has a suitable divisor: pad the longest axis with zeros, which do not change a sum.
    if (u.reduce_op() != Op::ADD) return u;
    for (int64_t a : u.reduce_axes()) {
      if (split[static_cast<size_t>(a)] > split[axis]) axis = static_cast<size_t>(a);
    }
    chunks = most;
    split[axis] = (split[axis] + chunks - 1) / chunks * chunks;
    padded = ir::Pad(ctx, x, ir::ShapeArg(ctx, Dims(split.size(), 0)), ir::ShapeArg(ctx, split));
  }
  const auto at = static_cast<std::ptrdiff_t>(axis);
  split[axis] /= chunks;
  split.insert(split.begin() + at, chunks);
  Dims inner;
  for (int64_t a : u.reduce_axes()) inner.push_back(a + (a >= at ? 1 : 0));
  const UOp partial = ir::ReduceAxes(ctx, u.reduce_op(), ir::Reshape(ctx, padded, split), inner);
  const UOp kept = ctx.Make(Op::CONTIGUOUS, u.dtype(), {partial});
  const int64_t outer = at;
  return ir::Reshape(ctx, ir::ReduceAxes(ctx, u.reduce_op(), kept, std::span(&outer, 1)),
                     ir::ShapeArg(ctx, *ctx.ShapeOf(u)));
}

// The STACK u as a WHERE over the position along the new axis: a STACK of the first half of the
// sources, and one of the rest, recursively down to `most` sources.
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

UOp Prepare(UOpContext& ctx, const std::vector<UOp>& order, const Options& options) {
  // The device of a STACK is not known yet, so the lowest limit of all devices counts.
  int fewest = options.limits.max_buffers;
  for (const auto& [name, limits] : options.limits_of)
    fewest = std::min(fewest, limits.max_buffers);
  const auto stack = static_cast<size_t>(std::clamp(fewest, 4, 18) - 2);
  std::vector<UOp> done(ctx.size());
  // By id: values computed from positions (IOTA). A sum of such values may pick a single element
  // (picks.h), which two REDUCEs would hide, so it is not split.
  std::vector<bool> counts(ctx.size(), false);
  ir::SymbolicDims srcs;
  for (UOp u : order) {
    if (ctx.Interrupted()) return order.back();
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
      made = SplitReduce(ctx, made, options);
    } else if (made.Is(Op::STACK) && u.dtype() != ir::Dtype::Index) {
      made = SplitStack(ctx, made, stack);
    }
    done[u.id()] = made;
  }
  return done[order.back().id()];
}

}  // namespace uopd::schedule
