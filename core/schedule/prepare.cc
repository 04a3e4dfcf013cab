// SPDX-License-Identifier: MIT
#include "core/schedule/prepare.h"

#include <algorithm>
#include <cmath>

#include "core/ir/build.h"
#include "core/ir/shape.h"
#include "core/schedule/describe.h"

namespace uopd::schedule {
namespace {

using ir::Dims;
using ir::Op;
using ir::OpSet;
using ir::UOp;
using ir::UOpContext;

constexpr int64_t kTermsOfAPiece = 1024;  // at least
constexpr int64_t kPieces = 256;  // of all elements together; more than a device has threads
constexpr int64_t kTile = 64;     // elements that an iteration takes of the innermost axis
// Below this codegen gives a kernel fewer threads: 65536 terms that are one load and one addition.
constexpr double kWorkOfAThread = 5 << 16;
constexpr size_t kMaxNodesOfATerm = 32;

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

// How many threads share this work over this many iterations: the way that codegen chooses them.
int64_t ThreadsFor(int64_t iterations, double work, int64_t threads) {
  for (int64_t t = threads; t > 1; --t) {
    if (work < kWorkOfAThread * static_cast<double>(t)) continue;
    if (iterations % t == 0 || iterations >= 8 * t) return t;
  }
  return 1;
}

// Operations of one term, counted down to memory and other reductions; no more than a few nodes.
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

// Limits of the device that u is computed on, found by its first sources.
const KernelLimits& LimitsFor(UOp u, const Options& options) {
  if (options.limits_of.empty()) return options.limits;
  while (!u.Is(OpSet{Op::PARAM, Op::COPY}) && u.n_src() > 0) u = u.src(0);
  const bool named = u.Is(OpSet{Op::PARAM, Op::COPY}) && !u.text().empty();
  return options.LimitsOf(named ? u.text() : options.default_device);
}

UOp SplitReduce(UOpContext& ctx, UOp u, const Options& options) {
  const int64_t threads = LimitsFor(u.src(0), options).threads;
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
  if (terms < 2 * kTermsOfAPiece) return u;
  // Most have enough of them, whatever their work.
  const auto loops = static_cast<int64_t>(iterations);
  if (ThreadsFor(loops, INFINITY, threads) == threads) return u;
  const double work = static_cast<double>(all) * (WorkOf(x) + 1);
  const int64_t few = ThreadsFor(loops, work, threads);
  const auto most = static_cast<int64_t>(std::min<ir::Int128>(
      std::max<ir::Int128>(kPieces / elements, threads), terms / kTermsOfAPiece));
  const int64_t least = std::min<int64_t>(most, 4);
  // The outermost axis that splits, so that a piece is one run of memory.
  size_t axis = dims->size();
  int64_t pieces = 1;
  for (int64_t a : u.reduce_axes()) {
    pieces = DivisorUpTo((*dims)[static_cast<size_t>(a)], most);
    axis = static_cast<size_t>(a);
    if (pieces >= least) break;
  }
  const int64_t many = ThreadsFor(pieces >= least ? pieces : most, work, threads);
  const double saved = work / static_cast<double>(few) - work / static_cast<double>(many);
  const double stored = static_cast<double>(elements) * static_cast<double>(most);
  if (saved <= stored * (options.realise_cost + kLoadWork) + options.launch_cost) return u;
  UOp padded = x;
  Dims split = *dims;
  if (pieces < least) {
    // Sizes like primes: zeros at the end of the longest axis change no sum.
    if (u.reduce_op() != Op::ADD) return u;
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

UOp Prepare(UOpContext& ctx, const std::vector<UOp>& order, const Options& options) {
  // Before it is known what is on which device.
  int fewest = options.limits.max_buffers;
  for (const auto& [name, limits] : options.limits_of)
    fewest = std::min(fewest, limits.max_buffers);
  const auto stack = static_cast<size_t>(std::clamp(fewest, 4, 18) - 2);
  std::vector<UOp> done(ctx.size());
  // Values that count positions: reductions over those may pick single elements, which a kernel can
  // fetch without looping. Splitting would hide that.
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
