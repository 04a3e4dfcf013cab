// SPDX-License-Identifier: MIT
// The rewrite engine with the symbolic rules: visits a second on the index expressions that
// scheduling makes of convolutions, unrolled ones, and a graph in which nothing matches (what a
// visit is: rewrite_rows.h). The first two are all index arithmetic that no rule has seen yet,
// where three times as many visits rewrite something as in a compile (rewrite_models_perf.cc).
// Time is that of the thread.
#include <ctime>

#include "core/ir/build.h"
#include "core/ir/graph.h"
#include "core/rewrite/rewriter.h"
#include "core/rules/rules.h"
#include "core/schedule/fusion/access.h"
#include "tests/perf/rewrite_rows.h"

namespace uopd::perf::rewrite_perf {
namespace {

using ir::Op;
using ir::UOp;
using ir::UOpContext;

// Axis `axis` of x, of n elements, becomes (k, n - k + 1): window position and offset in it, by
// repeating, cutting and reshaping, as pooling layers are written with movement ops.
UOp Windows(UOpContext& ctx, UOp x, size_t axis, int64_t k) {
  ir::Dims dims = *ir::StaticDims(*ctx.ShapeOf(x));
  const int64_t n = dims[axis], repeats = (k * (n + 1) + n - 1) / n;
  auto with = [&](std::initializer_list<int64_t> at) {
    ir::Dims out(dims.begin(), dims.begin() + static_cast<ptrdiff_t>(axis));
    out.insert(out.end(), at.begin(), at.end());
    out.insert(out.end(), dims.begin() + static_cast<ptrdiff_t>(axis) + 1, dims.end());
    return out;
  };
  auto cut = [&](UOp u, const ir::Dims& to) {
    return ir::Shrink(ctx, u, ir::ShapeArg(ctx, ir::Dims(to.size(), 0)), ir::ShapeArg(ctx, to));
  };
  x = ir::Reshape(ctx, x, with({1, n}));
  x = ir::Expand(ctx, x, with({repeats, n}));
  x = ir::Reshape(ctx, x, with({repeats * n}));
  x = cut(x, with({k * (n + 1)}));
  x = ir::Reshape(ctx, x, with({k, n + 1}));
  return cut(x, with({k, n - k + 1}));
}

// The offset and the gate of the elements that a padded convolution reads, not simplified.
std::vector<UOp> Convolution(UOpContext& ctx, int64_t channels, int64_t size, int64_t kernel,
                             int64_t first_axis) {
  const ir::Dims dims = {2, channels, size, size}, padded = {2, channels, size + 2, size + 2};
  const UOp input = ir::Param(ctx, 0, ir::Dtype::F32, ir::ShapeArg(ctx, dims));
  UOp x = ir::Pad(ctx, input, ir::ShapeArg(ctx, ir::Dims{0, 0, 1, 1}), ir::ShapeArg(ctx, padded));
  x = Windows(ctx, x, 2, kernel);
  x = Windows(ctx, x, 4, kernel);  // (2, c, k, o, k, o)
  x = ir::Permute(ctx, x, ir::Dims{0, 3, 5, 1, 2, 4});
  const int64_t out = size + 3 - kernel;
  x = ir::Reshape(ctx, x, ir::Dims{2 * out * out, channels * kernel * kernel});
  schedule::IndexList index = {
      ir::Range(ctx, ctx.Idx(2 * out * out), first_axis, ir::AxisType::LOOP),
      ir::Range(ctx, ctx.Idx(channels * kernel * kernel), first_axis + 1, ir::AxisType::REDUCE)};
  UOp gate = ctx.Bool(true);
  for (; x != input; x = x.src(0)) index = schedule::SourceIndex(ctx, x, index, gate);
  return {schedule::FlatIndex(ctx, dims, index), gate};
}

// Time on a core, so that other load counts as little as possible.
double CpuSeconds() {
  timespec t{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_nsec) * 1e-9;
}

RewriteTiming Time(UOpContext& ctx, std::span<const UOp> roots) {
  RewriteTiming t;
  const double start = CpuSeconds();
  rewrite::Rewriter rewriter(ctx, rules::SymbolicRules());
  for (UOp u : roots) rewriter.Run(u);
  t.seconds = CpuSeconds() - start;
  t.visits = rewriter.visits(), t.attempts = rewriter.attempts(), t.matches = rewriter.matches();
  return t;
}

std::vector<UOp> Convolutions(UOpContext& ctx, double scale) {
  std::vector<UOp> roots;
  for (int i = 0; i < std::max(1, static_cast<int>(400 * scale)); ++i) {
    const auto pair = Convolution(ctx, 3 + i % 13, 14 + i % 29, 1 + i % 5, 2 * i);
    roots.insert(roots.end(), pair.begin(), pair.end());
  }
  return roots;
}

RewriteTiming Index(double scale) {
  UOpContext ctx;
  const auto roots = Convolutions(ctx, scale);
  return Time(ctx, roots);
}

// Simplified once, then every range of the inner loop replaced by 16 constants: what unrolling
// leaves.
RewriteTiming Unrolled(double scale) {
  UOpContext ctx;
  std::vector<UOp> roots = Convolutions(ctx, scale), unrolled;
  rewrite::Rewriter first(ctx, rules::SymbolicRules());
  for (UOp& u : roots) u = first.Run(u);
  for (UOp u : roots) {
    UOp inner;
    for (UOp v : ir::Toposort(ctx, u)) {
      if (v.Is(Op::RANGE) && v.axis_type() == ir::AxisType::REDUCE) inner = v;
    }
    if (!inner) continue;
    for (int64_t i = 0; i < 16; ++i)
      unrolled.push_back(ir::Substitute(ctx, u, {{inner.id(), ctx.Idx(i % 3)}}));
  }
  return Time(ctx, unrolled);
}

RewriteTiming NoMatch(double scale) {
  UOpContext ctx;
  const UOp shape = ir::ShapeArg(ctx, std::span<const int64_t>());
  UOp a = ir::Param(ctx, 0, ir::Dtype::F32, shape);
  UOp b = ir::Param(ctx, 1, ir::Dtype::F32, shape);
  for (int i = 0; i < static_cast<int>(5e5 * scale); ++i) {
    const UOp sum = ir::Add(ctx, a, b);
    b = ir::Mul(ctx, sum, a);
    a = sum;
  }
  return Time(ctx, std::span(&b, 1));
}

absl::StatusOr<std::vector<Measurement>> Run(const Options& options) {
  rules::SymbolicRules();  // built before the clock starts
  std::vector<Measurement> out;
  constexpr std::pair<std::string_view, RewriteTiming (*)(double)> kGraphs[] = {
      {"index", Index}, {"unrolled", Unrolled}, {"no_match", NoMatch}};
  for (const auto& [name, measure] : kGraphs) {
    if (!options.model.empty() && name != options.model) continue;
    // Three rounds; the best one counts, since the machine may be shared.
    RewriteTiming best = measure(options.scale);
    for (int i = 0; i < 2; ++i) {
      if (const RewriteTiming t = measure(options.scale); t.seconds < best.seconds) best = t;
    }
    ReportRewrite(out, std::string(name), best);
  }
  if (out.empty()) return absl::InvalidArgumentError("--model is index, unrolled or no_match");
  return out;
}

const Register kRegister("rewrite",
                         "visits a second of the rewrite engine with the symbolic rules: --model "
                         "index|unrolled|no_match",
                         Run);

}  // namespace
}  // namespace uopd::perf::rewrite_perf
