// SPDX-License-Identifier: MIT
// The steps ChoosePacks and ChooseMemoryOpts of the heuristic (heuristic.cc): packed operands,
// stores around the caches (memory_opts.h) and prefetches.
#include <algorithm>
#include <cmath>
#include <optional>

#include "core/codegen/cpu/heuristic/heuristic_steps.h"
#include "core/codegen/cpu/heuristic/memory_opts.h"
#include "core/codegen/passes/vectors/vectorise.h"

namespace uopd::codegen {
namespace {

constexpr double kLeastWordReuse = 2;  // tiles that read packed words of a matrix instruction
// A tile that reads more rows than this needs more entries of the page table than the processor
// holds at once.
constexpr double kManyRows = 600;
// A prefetch is for elements that at most so many tiles read: the wait of the first tile is a small
// part of the time of many.
constexpr double kMostTiles = 16;
// A prefetch is for operands of at least this part of a thread's own cache: a smaller operand is in
// the cache soon without one.
constexpr double kLeastPart = 0.07;

// The reduced axis along which the load reads a piece of each row, if its rows are worth fetching.
std::optional<size_t> RowsOf(ir::UOpContext& ctx, ir::UOp load, const Target& target,
                             std::span<const MemoryAxis> axes) {
  const ir::UOp index = load.src(0);
  if (index.n_src() > 2) return std::nullopt;
  const int64_t element = ir::ByteSize(load.dtype());
  auto bytes = static_cast<double>(element);
  double tiles = 1;
  int64_t piece = 0, step = 0;
  std::optional<size_t> rows;
  for (size_t i = 0; i < axes.size(); ++i) {
    const MemoryAxis& a = axes[i];
    const auto stride = StrideAlong(ctx, index.src(1), a.range);
    if (!stride || !a.fixed) return std::nullopt;
    if (stride == 0) {
      if (!a.is_reduce) tiles *= static_cast<double>(a.left);
      continue;
    }
    bytes *= static_cast<double>(a.size);
    if (!a.is_reduce && a.lanes > 1 && stride == 1) piece = a.tile * element;
    if (!a.is_reduce || a.left < 2) continue;
    rows = i;
    step = std::abs(*stride) * element;
  }
  const bool is_large = bytes > kLeastPart * static_cast<double>(target.OwnCacheBytes());
  return piece > 0 && step > piece && is_large && tiles <= kMostTiles ? rows : std::nullopt;
}

// PREFETCH of an operand of a matrix instruction that few tiles read, along the reduced axis.
//
// The weights of a network come from memory in every run. The first tile that reads them waits, and
// with few tiles this is a large part of the time. Processors fetch ahead of a loop that reads
// whole rows; they do not foresee one that reads a piece of each row.
//
// `axes` are those of Axes(ctx, sink), `opts` what the heuristic has chosen so far. In the order in
// which the results should be tried.
std::vector<Opt> OperandPrefetches(ir::UOpContext& ctx, ir::UOp sink, const Target& target,
                                   std::span<const MemoryAxis> axes, std::span<const Opt> opts) {
  const std::vector<ir::UOp> reads = Reads(ctx, sink), loads = Loads(ctx, sink);
  std::vector<Opt> out;
  for (size_t n = 0; n < reads.size(); ++n) {
    // A packed load needs no prefetch: its copy is made long before the kernel reads it.
    const bool packed = std::ranges::any_of(opts, [&](const Opt& o) {
      return o.kind == OptKind::kPack && loads[static_cast<size_t>(o.axis)] == reads[n];
    });
    const auto rows = packed ? std::nullopt : RowsOf(ctx, reads[n], target, axes);
    if (rows) out.push_back({OptKind::kPrefetch, static_cast<int>(n), static_cast<int64_t>(*rows)});
  }
  return out;
}

}  // namespace

void ChoosePacks(CpuChoice& choice) {
  const KernelFacts& facts = choice.facts;
  if (!CanPack(facts) || facts.reduces == 0) return;
  const std::vector<ir::UOp> loads = Loads(facts.ctx, facts.sink);
  for (size_t n = 0; n < loads.size(); ++n) {
    double reused = 1, rows = 1;
    bool gathers = false, vector = false;
    const auto access = std::find_if(facts.accesses.begin(), facts.accesses.end(),
                                     [&](const Access& x) { return x.node == loads[n]; });
    for (size_t a = 0; a < facts.axes.size(); ++a) {
      const auto stride = access->strides[a];
      if (IsStoredAlong(facts, a)) {
        if (stride == 0 && !IsReduce(facts, a) && IsRepeated(facts, *access, a))
          reused *= static_cast<double>(choice.left[a]);
        vector |= stride != 0 && choice.lanes[a] > 1;
        gathers |= choice.lanes[a] > 1 && stride != 0 &&
                   (!stride || *stride < 1 || *stride > kSmallStride);
      } else if (choice.plan.maybe_instruction() != nullptr && !stride &&
                 ir::Bits(loads[n].dtype()) == 32) {
        continue;  // neighbours share words: the steps between words are short
      } else if (!stride || std::abs(*stride) * facts.widest >= kRowBytes) {
        rows *= static_cast<double>(facts.sizes[a]);
      }
    }
    // Words that lie in memory as such need no copy.
    const bool in_words = choice.plan.maybe_instruction() != nullptr && reused >= kLeastWordReuse &&
                          ir::Bits(loads[n].dtype()) < 32;
    if (!vector || (reused < kLeastReuse && !in_words)) continue;
    if (in_words || gathers || rows > kManyRows)
      (void)choice.Try({OptKind::kPack, static_cast<int>(n), 0});
  }
}

void ChooseMemoryOpts(CpuChoice& choice) {
  const KernelFacts& facts = choice.facts;
  for (const Opt& opt : MemoryOpts(facts.ctx, facts.sink, facts.target, MemoryAxes(choice)))
    (void)choice.Try(opt);
  // While a thread computes the running sums of one chunk, memory sends its next one.
  for (size_t n = 0; choice.scan_chunks && n < Reads(facts.ctx, facts.sink).size(); ++n)
    (void)choice.Try({OptKind::kPrefetch, static_cast<int>(n), 0});
  // Sums of f32 take longer than the operands take to arrive: there, prefetching them gains
  // nothing.
  if (choice.plan.maybe_instruction() == nullptr) return;
  const std::vector<Opt> chosen = choice.plan.opts();
  for (const Opt& opt :
       OperandPrefetches(facts.ctx, facts.sink, facts.target, MemoryAxes(choice), chosen))
    (void)choice.Try(opt);
}

}  // namespace uopd::codegen
