// SPDX-License-Identifier: MIT
// Step 3 of the heuristic (heuristic_steps.h): the register tile of a reduction.
//
// Invariant: only output axes of constant size are upcast. The model (register_tile.h) decides where
// the kernel has no stages; kernels with stages count the multiply-adds for each load.
#include <algorithm>
#include <cmath>

#include "core/codegen/cpu/heuristic/heuristic_steps.h"

namespace uopd::codegen {
namespace {

constexpr double kGated = 1.5;  // cost of a gated load, in loads

}  // namespace

void Heuristic::ChooseTile() {
  if (!has_stages_ && ChooseModelledTile()) return;
  std::vector<size_t> shared;
  for (size_t a = axes_.size(); a-- > 0 && shared.size() < 2;) {
    if (!IsReduce(a) && fixed_[a] && left_[a] > 1 && SharedAlong(a)) shared.push_back(a);
  }
  const int64_t registers = target_.vector_registers;
  if (shared.size() == 1) {
    for (int64_t n : {8, 6, 5, 4, 3, 2}) {
      if (Wanted(shared[0], n) > 0 && 2 * n + 2 <= registers && Upcast(shared[0], n)) return;
    }
    return;
  }
  if (shared.empty()) {
    // No load is shared: upcast a vectorised axis, so that accesses to memory are longer.
    for (size_t a = axes_.size(); a-- > 0;) {
      for (int64_t n : {4, 2}) {
        if (!IsReduce(a) && fixed_[a] && lanes_[a] > 1 && left_[a] % n == 0 && Upcast(a, n)) return;
      }
    }
    return;
  }
  double best = 0;
  int64_t best_x = 1, best_y = 1;
  for (int64_t x : {1, 2, 3, 4, 5, 6, 7, 8}) {
    for (int64_t y : {1, 2, 3, 4, 5, 6, 7, 8}) {
      const double wanted = Wanted(shared[0], x) * Wanted(shared[1], y);
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
    if (best_x % x == 0 && Upcast(shared[0], x)) break;
  }
  for (int64_t y = best_y; y > 1; --y) {
    if (Wanted(shared[1], y) > 0 && Upcast(shared[1], y)) break;
  }
}

bool Heuristic::ChooseModelledTile() {
  // Innermost first, which wins between equals: what neighbouring iterations load lies together.
  std::vector<TileAxis> axes;
  for (size_t a = axes_.size(); a-- > 0;) {
    if (!IsReduce(a) && fixed_[a] && left_[a] > 1 && InsideReduce(a)) axes.push_back({a, left_[a]});
  }
  TileSums sums;
  sums.count = std::max<int64_t>(1, static_cast<int64_t>(results_.size()));
  for (size_t i = 0; i < axes_.size(); ++i) sums.joins |= (reduces_ & Bit(i)) != 0 && lanes_[i] > 1;
  if (unrolls_whole_) sums.terms = static_cast<int64_t>(Times(reduces_));
  if (!unrolls_whole_ && UnrollsInnermost()) sums.ahead = kLoadedTogether;
  sums.threads = MostThreads();
  std::vector<TileLoad> loads;
  for (const Access& a : accesses_) {
    if (a.is_store || (a.path & reduces_) == 0) continue;
    TileLoad load;
    load.bytes = static_cast<double>(widest_);
    for (size_t i = 0; i < axes_.size(); ++i) {
      load.strides.push_back(std::abs(a.strides[i].value_or(0)) * a.bytes * lanes_[i]);
      if (a.strides[i] == 0) continue;
      load.along |= Bit(i);
      if ((reduces_ & Bit(i)) != 0) load.steps *= static_cast<double>(left_[i]);
      if (lanes_[i] == 1) continue;
      load.bytes *= static_cast<double>(lanes_[i]);
      load.instructions = LoadsOf(a, i, lanes_[i]);
    }
    load.run_bytes = RunElements(a) * a.bytes;
    if (a.is_gated && !HasLanes(a)) load.instructions *= kGated;
    if (ComesFromMemory(a))
      load.memory_bytes = load.bytes * static_cast<double>(a.bytes) / static_cast<double>(widest_);
    if (unrolls_whole_) AddWindows(a, load);
    if (plan_.maybe_instruction() != nullptr) {
      if (!HasLanes(a)) load.instructions = WordCost(a);
      // Lanes of words along the sum are not packed: each element is loaded and moved to its place.
      if (sums.joins) load.instructions = 2 * plan_.maybe_instruction()->k;
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
    a.splits = !slides || lanes_[a.axis] == 1;
    a.most = MostPackedCopies(a.axis);
  }
  const bool shared = slides || std::any_of(axes.begin(), axes.end(),
                                            [&](const TileAxis& a) { return SharedAlong(a.axis); });
  if (!shared) return false;
  for (const auto& [axis, amount] : ChooseRegisterTile(axes, loads, sums, target_).amounts)
    Upcast(axis, amount);
  return true;
}

int64_t Heuristic::MostPackedCopies(size_t axis) const {
  int64_t most = INT64_MAX;
  if (lanes_[axis] == 1 || !Scatters(axis)) return most;
  for (const Access& a : accesses_) {
    const bool together = a.strides[axis] == 0 || a.strides[axis] == 1;
    if (!together && (a.path & reduces_) != 0 && Packs(a, axis, lanes_[axis]))
      most = std::min(most, PanelVectors(a, lanes_[axis]));
  }
  return most;
}

int64_t Heuristic::RunElements(const Access& a) const {
  int64_t run = 1;
  for (bool grows = true; grows;) {
    grows = false;
    for (size_t i = 0; i < axes_.size(); ++i) {
      if (!IsReduce(i) || a.strides[i] != run || sizes_[i] == 1) continue;
      run *= sizes_[i];
      grows = true;
    }
  }
  return run;
}

bool Heuristic::UnrollsInnermost() const {
  size_t innermost = axes_.size();
  for (size_t a = 0; a < axes_.size(); ++a) {
    if ((reduces_ & Bit(a)) != 0 && fixed_[a] && left_[a] > 1) innermost = a;
  }
  if (innermost == axes_.size() || left_[innermost] > kShortLoop) return false;
  return std::none_of(accesses_.begin(), accesses_.end(), [&](const Access& x) {
    const int64_t step = x.strides[innermost].value_or(0);
    if (x.is_store || step == 0) return false;
    for (size_t u = 0; u < axes_.size(); ++u) {
      const int64_t other = x.strides[u].value_or(0);
      if (!IsReduce(u) && lanes_[u] == 1 && other != 0 && step % other == 0) return true;
    }
    return false;
  });
}

void Heuristic::AddWindows(const Access& a, TileLoad& load) const {
  for (size_t i = 0; i < axes_.size(); ++i) {
    const int64_t step = a.strides[i].value_or(0) * lanes_[i];
    if (IsReduce(i) || step == 0) continue;
    for (size_t r = 0; r < axes_.size(); ++r) {
      const int64_t within = a.strides[r].value_or(0);
      if ((reduces_ & Bit(r)) == 0 || within == 0 || step % within != 0) continue;
      const int64_t slide = std::abs(step / within);
      if (slide < sizes_[r]) load.windows.push_back({i, slide, sizes_[r]});
    }
  }
}

bool Heuristic::ComesFromMemory(const Access& a) const {
  auto bytes = static_cast<double>(a.bytes);
  for (size_t i = 0; i < axes_.size(); ++i) {
    if (a.strides[i] == 0 && !IsReduce(i) && sizes_[i] > 1) return false;
    if (a.strides[i] != 0) bytes *= static_cast<double>(sizes_[i]);
  }
  return bytes > static_cast<double>(target_.OwnCacheBytes());
}

bool Heuristic::SharedAlong(size_t axis) const {
  for (const Access& a : accesses_) {
    if (!a.is_store && (a.path & reduces_) != 0 && (a.path & Bit(axis)) != 0 &&
        a.strides[axis] == 0)
      return true;
  }
  return false;
}

bool Heuristic::InsideReduce(size_t axis) const {
  return std::any_of(accesses_.begin(), accesses_.end(), [&](const Access& x) {
    return !x.is_store && (x.path & reduces_) != 0 && (x.path & Bit(axis)) != 0;
  });
}

double Heuristic::Wanted(size_t axis, int64_t n) const {
  if (left_[axis] % n == 0) return 1;
  const int64_t padded = Rounds(axis, n) * n;
  const bool few = has_stages_ && lanes_[axis] == 1 && 10 * padded <= 11 * left_[axis];
  return few ? static_cast<double>(left_[axis]) / static_cast<double>(padded) : 0;
}

}  // namespace uopd::codegen
