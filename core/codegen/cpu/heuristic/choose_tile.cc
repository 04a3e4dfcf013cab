// SPDX-License-Identifier: MIT
// The step ChooseTile of the heuristic (heuristic.cc): the register tile of a reduction.
//
// Invariant: only output axes of constant size are upcast. The model (register_tile.h) decides
// where the kernel has no stages; kernels with stages count the multiply-adds for each load.
#include <algorithm>
#include <cmath>

#include "core/base/text.h"
#include "core/codegen/cpu/heuristic/heuristic_steps.h"
#include "core/codegen/cpu/heuristic/register_tile.h"
#include "core/codegen/cpu/heuristic/vector_cost.h"
#include "core/rewrite/rewrite_trace.h"

namespace uopd::codegen {
namespace {

constexpr double kGated = 1.5;  // cost of a gated load, in loads

// Whether the innermost reduced axis is short, and no window slides along it: ChooseUnroll will
// unroll it whole.
bool UnrollsInnermost(const CpuChoice& choice) {
  const KernelFacts& facts = choice.facts;
  size_t innermost = facts.axes.size();
  for (size_t a = 0; a < facts.axes.size(); ++a) {
    if ((facts.reduces & AxisBit(a)) != 0 && facts.fixed[a] && choice.left[a] > 1) innermost = a;
  }
  if (innermost == facts.axes.size() || choice.left[innermost] > kShortLoop) return false;
  return std::none_of(facts.accesses.begin(), facts.accesses.end(), [&](const Access& x) {
    const int64_t step = x.strides[innermost].value_or(0);
    if (x.is_store || step == 0) return false;
    for (size_t u = 0; u < facts.axes.size(); ++u) {
      const int64_t other = x.strides[u].value_or(0);
      if (!IsReduce(facts, u) && choice.lanes[u] == 1 && other != 0 && step % other == 0)
        return true;
    }
    return false;
  });
}

// Notes the output axes along which the window of a convolution slides, if the reduction over the
// window is unrolled whole.
void AddWindows(const CpuChoice& choice, const Access& a, TileLoad& load) {
  const KernelFacts& facts = choice.facts;
  for (size_t i = 0; i < facts.axes.size(); ++i) {
    const int64_t step = a.strides[i].value_or(0) * choice.lanes[i];
    if (IsReduce(facts, i) || step == 0) continue;
    for (size_t r = 0; r < facts.axes.size(); ++r) {
      const int64_t within = a.strides[r].value_or(0);
      if ((facts.reduces & AxisBit(r)) == 0 || within == 0 || step % within != 0) continue;
      const int64_t slide = std::abs(step / within);
      if (slide < facts.sizes[r]) load.windows.push_back({i, slide, facts.sizes[r]});
    }
  }
}

// Copies of an axis with lanes for whose packed operands private memory has room.
int64_t MostPackedCopies(const CpuChoice& choice, size_t axis) {
  const KernelFacts& facts = choice.facts;
  int64_t most = INT64_MAX;
  if (choice.lanes[axis] == 1 || !Scatters(facts, axis)) return most;
  for (const Access& a : facts.accesses) {
    const bool together = a.strides[axis] == 0 || a.strides[axis] == 1;
    if (!together && (a.path & facts.reduces) != 0 &&
        PacksLanes(facts, a, axis, choice.lanes[axis]))
      most = std::min(most, PanelVectors(facts, a, choice.lanes[axis]));
  }
  return most;
}

// Contiguous elements that the reduction reads one after the other.
int64_t RunElements(const KernelFacts& facts, const Access& a) {
  int64_t run = 1;
  for (bool grows = true; grows;) {
    grows = false;
    for (size_t i = 0; i < facts.axes.size(); ++i) {
      if (!IsReduce(facts, i) || a.strides[i] != run || facts.sizes[i] == 1) continue;
      run *= facts.sizes[i];
      grows = true;
    }
  }
  return run;
}

// Whether the kernel reads each element once, and there are too many of them for a cache.
bool ComesFromMemory(const KernelFacts& facts, const Access& a) {
  auto bytes = static_cast<double>(a.bytes);
  for (size_t i = 0; i < facts.axes.size(); ++i) {
    if (a.strides[i] == 0 && !IsReduce(facts, i) && facts.sizes[i] > 1) return false;
    if (a.strides[i] != 0) bytes *= static_cast<double>(facts.sizes[i]);
  }
  return bytes > static_cast<double>(facts.target.OwnCacheBytes());
}

// Whether some load inside of a reduction is shared along the axis: the load does not depend on it.
bool SharedAlong(const KernelFacts& facts, size_t axis) {
  for (const Access& a : facts.accesses) {
    if (IsLoadOfSum(facts, a) && (a.path & AxisBit(axis)) != 0 && a.strides[axis] == 0) return true;
  }
  return false;
}

// Whether some load of a reduction is inside the loop over the axis.
bool InsideReduce(const KernelFacts& facts, size_t axis) {
  return std::any_of(facts.accesses.begin(), facts.accesses.end(), [&](const Access& x) {
    return IsLoadOfSum(facts, x) && (x.path & AxisBit(axis)) != 0;
  });
}

// Sums that no other sum is computed in.
int64_t InnermostSums(const KernelFacts& facts) {
  const auto is_innermost = [&](const Result& r) {
    return std::none_of(facts.results.begin(), facts.results.end(),
                        [&](const Result& other) { return (other.path & r.over) != 0; });
  };
  return std::max<int64_t>(1,
                           std::count_if(facts.results.begin(), facts.results.end(), is_innermost));
}

// The useful fraction of the work if the axis is tiled by n; 0: such tiles are not allowed. Tiles
// must divide the axis. Exception: in kernels with stages an axis that is not vectorised may be
// padded by up to a tenth, for row counts without small divisors.
double UsefulPart(const CpuChoice& choice, size_t axis, int64_t n) {
  const KernelFacts& facts = choice.facts;
  if (choice.left[axis] % n == 0) return 1;
  const int64_t padded = choice.Rounds(axis, n) * n;
  const bool few =
      facts.has_stages && choice.lanes[axis] == 1 && 10 * padded <= 11 * choice.left[axis];
  return few ? static_cast<double>(choice.left[axis]) / static_cast<double>(padded) : 0;
}

// "1.87 multiply-adds a cycle"
std::string Rate(const Tile& tile) {
  return Cat(std::round(100 * tile.rate) / 100, " multiply-adds a cycle");
}

// "12 in 6.5 cycles: 6 to issue + 0.5 for the loop"
std::string Terms(const Tile& tile) {
  return Cat(tile.accumulators, " in ", std::round(100 * tile.price.Cycles()) / 100,
             " cycles: ", tile.price.Text());
}

std::string TextOf(const Tile& tile) {
  std::vector<Opt> opts;
  for (const auto& [axis, amount] : tile.amounts)
    opts.push_back({OptKind::kUpcast, static_cast<int>(axis), amount});
  return Text(opts);
}

// The tile of the model (register_tile.h). False if no load of a reduction is shared.
bool ChooseModelledTile(CpuChoice& choice) {
  const KernelFacts& facts = choice.facts;
  // Innermost first, which wins between equals: what neighbouring iterations load lies together.
  std::vector<TileAxis> axes;
  for (size_t a = facts.axes.size(); a-- > 0;) {
    if (!IsReduce(facts, a) && facts.fixed[a] && choice.left[a] > 1 && InsideReduce(facts, a))
      axes.push_back({a, choice.left[a]});
  }
  TileSums sums;
  sums.count = InnermostSums(facts);
  for (size_t i = 0; i < facts.axes.size(); ++i)
    sums.joins |= (facts.reduces & AxisBit(i)) != 0 && choice.lanes[i] > 1;
  if (facts.unrolls_whole) sums.terms = static_cast<int64_t>(Times(facts, facts.reduces));
  if (!facts.unrolls_whole && UnrollsInnermost(choice)) sums.ahead = kLoadedTogether;
  sums.threads = MostThreads(facts);
  double steps = 1;  // of the innermost reductions
  for (const Access& a : facts.accesses)
    if (IsLoadOfSum(facts, a)) steps = std::max(steps, Times(facts, a.path & facts.reduces));
  std::vector<TileLoad> loads;
  for (const Access& a : facts.accesses) {
    if (!IsLoadOfSum(facts, a)) continue;
    TileLoad load;
    load.often = Times(facts, a.path & facts.reduces) / steps;
    load.bytes = static_cast<double>(facts.widest);
    for (size_t i = 0; i < facts.axes.size(); ++i) {
      load.strides.push_back(std::abs(a.strides[i].value_or(0)) * a.bytes * choice.lanes[i]);
      if (a.strides[i] == 0) continue;
      load.along |= AxisBit(i);
      if ((facts.reduces & AxisBit(i)) != 0) load.steps *= static_cast<double>(choice.left[i]);
      if (choice.lanes[i] == 1) continue;
      load.bytes *= static_cast<double>(choice.lanes[i]);
      load.instructions = LoadsOf(facts, a, i, choice.lanes[i]);
    }
    load.run_bytes = RunElements(facts, a) * a.bytes;
    if (a.is_gated && !HasLanes(choice, a)) load.instructions *= kGated;
    if (ComesFromMemory(facts, a))
      load.memory_bytes =
          load.bytes * static_cast<double>(a.bytes) / static_cast<double>(facts.widest);
    if (facts.unrolls_whole) AddWindows(choice, a, load);
    if (choice.plan.maybe_instruction() != nullptr) {
      if (HasLanes(choice, a))
        load.work = UnpackingCost(choice, a);
      else
        load.instructions = WordCost(choice, a);
      // Lanes of words along the sum are not packed: each element is loaded and moved to its place.
      if (sums.joins) load.instructions = 2 * choice.plan.maybe_instruction()->k;
    }
    loads.push_back(load);
  }
  const bool slides =
      std::any_of(loads.begin(), loads.end(), [](const TileLoad& l) { return !l.windows.empty(); });
  // A matrix from memory sets the pace of all threads together.
  if (std::any_of(loads.begin(), loads.end(), [](const TileLoad& l) { return l.memory_bytes > 0; }))
    sums.threads = 1;
  // Windows of neighbouring pixels share rows of channels, which are read fastest as a whole.
  for (TileAxis& a : axes) {
    a.splits = !slides || choice.lanes[a.axis] == 1;
    a.most = MostPackedCopies(choice, a.axis);
  }
  const bool shared = slides || std::any_of(axes.begin(), axes.end(), [&](const TileAxis& a) {
                        return SharedAlong(facts, a.axis);
                      });
  if (!shared) return false;
  Tile next;
  const Tile tile = ChooseRegisterTile(axes, loads, sums, facts.target, &next);
  if (rewrite::TracesNotes() && tile.rate > 0) {
    std::string note = Cat("the model expects ", Rate(tile), " of the tile ", TextOf(tile), " (",
                           Terms(tile), ")");
    if (next.rate > 0)
      Append(note, ", and ", Rate(next), " of the next best, ", TextOf(next), " (", Terms(next),
             ")");
    rewrite::TraceNote(note);
  }
  for (const auto& [axis, amount] : tile.amounts) choice.Upcast(axis, amount);
  return true;
}

}  // namespace

void ChooseTile(CpuChoice& choice) {
  const KernelFacts& facts = choice.facts;
  if (!facts.has_stages && ChooseModelledTile(choice)) return;
  std::vector<size_t> shared;
  for (size_t a = facts.axes.size(); a-- > 0 && shared.size() < 2;) {
    if (!IsReduce(facts, a) && facts.fixed[a] && choice.left[a] > 1 && SharedAlong(facts, a))
      shared.push_back(a);
  }
  const int64_t registers = facts.target.vector_registers;
  if (shared.size() == 1) {
    for (int64_t n : {8, 6, 5, 4, 3, 2}) {
      if (UsefulPart(choice, shared[0], n) > 0 && 2 * n + 2 <= registers &&
          choice.Upcast(shared[0], n))
        return;
    }
    return;
  }
  if (shared.empty()) {
    // No load is shared: upcast a vectorised axis, so that accesses to memory are longer.
    for (size_t a = facts.axes.size(); a-- > 0;) {
      for (int64_t n : {4, 2}) {
        if (!IsReduce(facts, a) && facts.fixed[a] && choice.lanes[a] > 1 &&
            choice.left[a] % n == 0 && choice.Upcast(a, n))
          return;
      }
    }
    return;
  }
  double best = 0;
  int64_t best_x = 1, best_y = 1;
  for (int64_t x : {1, 2, 3, 4, 5, 6, 7, 8}) {
    for (int64_t y : {1, 2, 3, 4, 5, 6, 7, 8}) {
      const double wanted = UsefulPart(choice, shared[0], x) * UsefulPart(choice, shared[1], y);
      if (wanted == 0) continue;
      if (x * y + std::min(x, y) + 2 > registers) continue;
      // Multiply-adds per load, scaled down for tiles of fewer than ten accumulators: those do
      // not hide the latency of the multiply-adds.
      const double value = wanted * static_cast<double>(x * y) / static_cast<double>(x + y) *
                           std::min(1.0, static_cast<double>(x * y) / 10);
      if (value > best) {
        best = value;
        best_x = x;
        best_y = y;
      }
    }
  }
  // The best tile may need too much staged memory: then try smaller ones.
  for (int64_t x = best_x; x > 1; --x) {
    if (best_x % x == 0 && choice.Upcast(shared[0], x)) break;
  }
  for (int64_t y = best_y; y > 1; --y) {
    if (UsefulPart(choice, shared[1], y) > 0 && choice.Upcast(shared[1], y)) break;
  }
}

}  // namespace uopd::codegen
