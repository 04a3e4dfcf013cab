// SPDX-License-Identifier: MIT
#include "core/codegen/gpu/heuristic/block_heuristic.h"

#include <algorithm>
#include <bit>
#include <string_view>

#include "core/base/target/machine_facts.h"
#include "core/base/text.h"
#include "core/codegen/gpu/heuristic/gpu_choice.h"
#include "core/codegen/gpu/heuristic/product.h"
#include "core/rewrite/rewrite_trace.h"

namespace uopd::codegen {
namespace {

constexpr int64_t kBlockThreads = 256;  // wanted in a block
constexpr int64_t kMostRowThreads = 1024;
// A processor keeps so many bytes in its first-level cache, of rows that blocks read more than
// once.
constexpr double kKeptRowBytes = 128 << 10;
constexpr int64_t kLongSum = 32;  // terms from which a group of threads may share a sum
constexpr double kBusyThreads = kUnitThreads / 2.0;  // with fewer a processor waits for memory
constexpr int64_t kShortSum = 16;                    // terms: unrolled whole
constexpr int64_t kUnroll = 4;

int64_t PowerBelow(int64_t n) {
  return static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(std::max<int64_t>(n, 1))));
}

// The axes of the reductions that the axis belongs to, and of the loops around them; of an output
// axis all output axes too.
AxisSet NestOf(const KernelFacts& facts, size_t axis) {
  AxisSet out = AxisBit(axis);
  for (const Result& r : facts.results) {
    if (((r.over | r.path) & AxisBit(axis)) != 0) out |= r.over | r.path;
  }
  for (size_t a = 0; a < facts.axes.size(); ++a) {
    if (!IsReduce(facts, a) && !IsReduce(facts, axis)) out |= AxisBit(a);
  }
  return out;
}

// The size of an element of the accesses along the axis. Where a reduction reads elements of
// several sizes, it is that of the smallest ones.
int64_t ElementBytes(const KernelFacts& facts, size_t axis) {
  int64_t out = std::max<int64_t>(facts.widest, 2);
  if (!IsReduce(facts, axis)) return out;
  for (const Access& x : facts.accesses) {
    if (!x.is_store && x.strides[axis] == 1) out = std::min(out, std::max<int64_t>(x.bytes, 2));
  }
  return out;
}

// Whether each block goes over rows of memory several times.
bool ReadsRowsAgain(const KernelFacts& facts) {
  int loops = 0;
  for (size_t a = 0; a < facts.axes.size(); ++a)
    loops += !BecomesGrid(facts, a) && IsContiguous(facts, a, true) ? 1 : 0;
  return loops > 1;
}

// The threads that a block should have. Rows that are read several times get so many that the rows
// of all blocks of a processor stay in its cache.
int64_t BlockThreads(const KernelFacts& facts) {
  double read = 0;
  for (size_t a = 0; a < facts.axes.size(); ++a) {
    if (!IsReduce(facts, a) || !IsContiguous(facts, a, true)) continue;
    read = std::max(read, static_cast<double>(facts.sizes[a]) * static_cast<double>(facts.widest));
  }
  int64_t threads = kBlockThreads;
  if (ReadsRowsAgain(facts)) {
    while (threads < kMostRowThreads &&
           read * kBusyThreads * 2 / static_cast<double>(threads) > kKeptRowBytes)
      threads *= 2;
  }
  return std::min(threads, facts.target.max_block_threads);
}

// Results of a block that lie next to each other in what the kernel loads: threads that a group
// leaves to them.
int64_t NeighboursOf(const GpuChoice& choice) {
  const KernelFacts& facts = choice.facts;
  int64_t out = 1;
  for (size_t a = 0; a < facts.axes.size(); ++a) {
    if (BecomesGrid(facts, a) && IsContiguous(facts, a, true))
      out = std::max(out, PowerBelow(choice.left[a]));
  }
  return std::min(out, kNeighbours);
}

// The widest access of a thread, along axes on which results or terms lie next to each other: one
// of each nest of loops.
void ChooseBlockVectors(GpuChoice& choice) {
  const KernelFacts& facts = choice.facts;
  AxisSet chosen = 0;
  for (size_t a = facts.axes.size(); a-- > 0;) {
    const bool pays =
        IsReduce(facts, a) ? IsContiguous(facts, a, true) : IsContiguous(facts, a, false);
    if (!pays || !facts.fixed[a] || (NestOf(facts, a) & chosen) != 0) continue;
    // Not so wide that too few threads are left.
    const double threads =
        GridResults(facts) * (BecomesGrid(facts, a) ? 1 : static_cast<double>(facts.sizes[a]));
    for (int64_t n = facts.target.vector_bytes / ElementBytes(facts, a); n > 1; n /= 2) {
      if (facts.sizes[a] % n != 0 ||
          threads / static_cast<double>(n) < kBusyThreads * facts.target.units)
        continue;
      if (!choice.Add(OptKind::kVector, a, n)) continue;
      chosen |= AxisBit(a);
      break;
    }
  }
}

void ChooseGroups(GpuChoice& choice) {
  const KernelFacts& facts = choice.facts;
  const double wanted = kBusyThreads * facts.target.units;
  std::vector<int64_t> grouped(facts.axes.size(), 1);
  for (size_t a = facts.axes.size(); a-- > 0;) {
    if (!IsReduce(facts, a) || facts.sizes[a] < kLongSum) continue;
    const bool contiguous = IsContiguous(facts, a, true);
    if (!contiguous && GridResults(facts) >= wanted) continue;
    // Each thread adds up at least two terms. Where results lie next to each other, a warp reads a
    // row of them.
    const int64_t most = BlockThreads(facts) / (contiguous ? 1 : NeighboursOf(choice));
    // Reductions one after the other have the same threads, those of one nest share them.
    int64_t others = 1;
    for (size_t g = 0; g < facts.axes.size(); ++g) {
      if (IsReduce(facts, g) && !facts.staged_over[g] && (NestOf(facts, a) & AxisBit(g)) != 0)
        others *= grouped[g];
    }
    int64_t n = std::min(most / others, PowerBelow(choice.left[a] / 2));
    // Many results need fewer threads each; a group along memory stays a warp.
    const auto threads = [&](int64_t members) {
      return GridResults(facts) * static_cast<double>(members * others);
    };
    while (n > 32 && !ReadsRowsAgain(facts) && threads(n / 2) >= wanted / 2) n /= 2;
    for (; n > 1; n /= 2) {
      if (!choice.Add(OptKind::kGroup, a, n)) continue;
      grouped[a] = n;
      if (!facts.staged_over[a]) choice.group = std::max(choice.group, others * n);
      break;
    }
  }
}

void ChooseLocals(GpuChoice& choice) {
  const KernelFacts& facts = choice.facts;
  std::vector<size_t> order;
  for (size_t a = facts.axes.size(); a-- > 0;) {
    if (!IsReduce(facts, a)) order.push_back(a);
  }
  // The axis along which memory is contiguous first: neighbouring threads access neighbouring
  // elements.
  const auto place = [&](size_t a) {
    return std::pair(IsContiguous(facts, a, false)  ? 0
                     : IsContiguous(facts, a, true) ? 1
                                                    : 2,
                     facts.axes.size() - a);
  };
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) { return place(a) < place(b); });
  for (size_t a : order) {
    // An axis that is a loop of each thread may use all threads of the block, also those of a
    // group.
    const int64_t others = BecomesGrid(facts, a) ? choice.threads * choice.group : choice.threads;
    const int64_t most = BlockThreads(facts) / std::max<int64_t>(others, 1);
    int64_t n = std::min(PowerBelow(most), PowerBelow(choice.left[a]));
    if (n < most && n < choice.left[a]) n *= 2;  // the last threads have nothing to do
    for (; n > 1; n /= 2) {
      if (n > most || !choice.Add(OptKind::kLocal, a, n)) continue;
      choice.threads *= n;
      break;
    }
  }
}

void ChooseBlockUnroll(GpuChoice& choice) {
  const KernelFacts& facts = choice.facts;
  AxisSet chosen = 0;
  for (size_t a = facts.axes.size(); a-- > 0;) {
    if (!IsReduce(facts, a) || !facts.fixed[a] || choice.left[a] < 2 ||
        (NestOf(facts, a) & chosen) != 0)
      continue;
    chosen |= AxisBit(a);
    if (choice.left[a] <= kShortSum) {
      choice.Add(OptKind::kUnroll, a, choice.left[a]);
    } else {
      for (int64_t n = kUnroll; n > 1; n /= 2) {
        if (choice.left[a] % n == 0 && choice.Add(OptKind::kUnroll, a, n)) break;
      }
    }
  }
}

struct GpuStep {
  std::string_view does;
  void (*choose)(GpuChoice&);
};

// In the order in which they run.
constexpr GpuStep kGpuSteps[] = {
    {"takes the widest access along an axis that is contiguous in memory", ChooseBlockVectors},
    {"gives each result of a long reduction a group of threads", ChooseGroups},
    {"takes threads along the output axes", ChooseLocals},
    {"unrolls short reductions", ChooseBlockUnroll},
};

}  // namespace

std::vector<Opt> GpuOpts(ir::UOpContext& ctx, ir::UOp sink, const Target& target) {
  GpuChoice whole(ctx, sink, target);
  const std::vector<Opt> merges = MergesOf(whole.facts);
  OptPlan plan(ctx, sink, target);
  if (!merges.empty() &&
      std::ranges::all_of(merges, [&](const Opt& o) { return plan.Add(o).ok(); })) {
    GpuChoice merged(ctx, plan.kernel(), target);
    if (ChooseProduct(merged)) {
      if (rewrite::TracesNotes())
        rewrite::TraceNote(
            Cat("merges axes of the product first, which saves padding of tiles: ", Text(merges)));
      std::vector<Opt> out = merges;
      out.insert(out.end(), merged.plan.opts().begin(), merged.plan.opts().end());
      return out;
    }
  }
  if (ChooseProduct(whole)) return whole.plan.opts();
  for (const GpuStep& step : kGpuSteps) {
    const auto before = static_cast<std::ptrdiff_t>(whole.plan.opts().size());
    step.choose(whole);
    const std::vector<Opt>& opts = whole.plan.opts();
    const std::vector<Opt> chosen(opts.begin() + std::min(before, std::ssize(opts)), opts.end());
    if (!chosen.empty() && rewrite::TracesNotes())
      rewrite::TraceNote(Cat(step.does, ": ", Text(chosen)));
  }
  return whole.plan.opts();
}

}  // namespace uopd::codegen
