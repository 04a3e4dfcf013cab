// SPDX-License-Identifier: MIT
#include "core/schedule/prepare/split_reduce.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "core/ir/shape.h"
#include "core/schedule/fusion/describe.h"

namespace uopd::schedule {
namespace {

using ir::Op;
using ir::UOp;

constexpr int64_t kMinTermsPerChunk = 1024;
constexpr int64_t kChunks = 256;  // chunks of all elements together: more than a device has threads
constexpr int64_t kTile = 64;     // elements of the innermost axis that one iteration computes
// The cost of a load and an addition here, by that in codegen's estimates.
constexpr double kCostOfATerm = 2.5;
constexpr size_t kMaxNodesOfATerm = 32;  // nodes that WorkOfTerm visits

bool IsReduced(UOp u, size_t axis) {
  return std::ranges::find(u.reduce_axes(), static_cast<int64_t>(axis)) != u.reduce_axes().end();
}

// The number of threads that codegen would use for this much work in this many iterations.
int64_t ThreadsFor(int64_t iterations, double work, const KernelLimits& limits) {
  for (int64_t t = limits.threads; t > 1; --t) {
    if (work < kCostOfATerm * limits.speeds.thread_work() * static_cast<double>(t)) continue;
    if (iterations % t == 0 || iterations >= 8 * t) return t;
  }
  return 1;
}

}  // namespace

std::optional<ReduceSizes> SizesOfReduce(ir::UOpContext& ctx, UOp u) {
  const auto dims = ir::StaticDims(*ctx.ShapeOf(u.src(0)));
  if (!dims) return std::nullopt;
  ir::Int128 all = 1, terms = 1;
  for (size_t a = 0; a < dims->size(); ++a) {
    all *= (*dims)[a];
    if (IsReduced(u, a)) terms *= (*dims)[a];
    if (all == 0 || all > ir::Int128{1} << 60) return std::nullopt;
  }
  return ReduceSizes{*dims, static_cast<int64_t>(terms), static_cast<int64_t>(all / terms),
                     static_cast<double>(all)};
}

double WorkOfTerm(UOp x) {
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

int64_t DivisorUpTo(int64_t n, int64_t most) {
  for (int64_t d = std::min(n, most); d > 1; --d) {
    if (n % d == 0) return d;
  }
  return 1;
}

std::optional<Cut> CutForThreads(ir::UOpContext& ctx, UOp u, const Options& options,
                                 const KernelLimits& limits) {
  const int64_t threads = limits.threads;
  const auto sizes = threads > 1 ? SizesOfReduce(ctx, u) : std::nullopt;
  if (!sizes || sizes->terms < 2 * kMinTermsPerChunk) return std::nullopt;
  const ir::Dims& dims = sizes->dims;
  int64_t loops = 1;
  for (size_t a = 0; a < dims.size(); ++a) {
    if (!IsReduced(u, a))
      loops *= a + 1 < dims.size() ? dims[a] : std::max<int64_t>(dims[a] / kTile, 1);
  }
  // Most reductions have enough iterations for all threads, so their work need not be computed.
  if (ThreadsFor(loops, INFINITY, limits) == threads) return std::nullopt;
  const double work = sizes->all * (WorkOfTerm(u.src(0)) + 1);
  const int64_t few = ThreadsFor(loops, work, limits);
  const int64_t most =
      std::min(std::max(kChunks / sizes->elements, threads), sizes->terms / kMinTermsPerChunk);
  const int64_t least = std::min<int64_t>(most, 4);
  // Cut the outermost axis that has a suitable divisor, so that a chunk is consecutive in memory.
  Cut cut;
  for (int64_t a : u.reduce_axes()) {
    cut.axis = static_cast<size_t>(a);
    cut.chunks = DivisorUpTo(dims[cut.axis], most);
    if (cut.chunks >= least) break;
  }
  const int64_t many = ThreadsFor(cut.chunks >= least ? cut.chunks : most, work, limits);
  const double saved = work / static_cast<double>(few) - work / static_cast<double>(many);
  const double stored = static_cast<double>(sizes->elements) * static_cast<double>(most);
  if (saved <= stored * (options.realise_cost + kLoadWork) + options.launch_cost)
    return std::nullopt;
  if (cut.chunks < least) {
    // No axis has a suitable divisor: the longest one is padded.
    for (int64_t a : u.reduce_axes()) {
      if (dims[static_cast<size_t>(a)] > dims[cut.axis]) cut.axis = static_cast<size_t>(a);
    }
    cut.chunks = most;
  }
  cut.size = (dims[cut.axis] + cut.chunks - 1) / cut.chunks;
  return cut;
}

}  // namespace uopd::schedule
