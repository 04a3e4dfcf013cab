// SPDX-License-Identifier: MIT
#include "core/codegen/opt/heuristic/blocks/block_heuristic.h"

#include <algorithm>
#include <bit>

namespace uopd::codegen {
namespace {

constexpr int64_t kBlockThreads = 256;    // wanted in a block
constexpr double kLongLoop = 64;          // see OptPlan::IsGrid
constexpr int64_t kLongSum = 32;          // terms from which a group of threads may share a sum
constexpr double kThreadsPerUnit = 1024;  // that keep a processor busy
constexpr int64_t kNeighbours = 32;       // results of a block that lie next to each other
constexpr int64_t kShortSum = 16;         // terms: unrolled whole
constexpr int64_t kUnroll = 4;

int64_t PowerBelow(int64_t n) {
  return static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(std::max<int64_t>(n, 1))));
}

}  // namespace

std::vector<Opt> BlockHeuristic::Run() {
  if (!ChooseProduct()) {
    ChooseVectors();
    ChooseGroups();
    ChooseLocals();
    ChooseUnroll();
  }
  return plan_.opts();
}

bool BlockHeuristic::Add(OptKind kind, size_t axis, int64_t amount) {
  if (!plan_.Add({kind, static_cast<int>(axis), amount}).ok()) return false;
  if (kind != OptKind::kPack && kind != OptKind::kTensorCore)
    left_[axis] = (left_[axis] + amount - 1) / amount;
  return true;
}

bool BlockHeuristic::IsGrid(size_t axis) const {
  if (IsReduce(axis)) return false;
  return std::ranges::all_of(results_, [&](const Result& r) {
    return (r.path & Bit(axis)) != 0 || Times(r.over) < kLongLoop;
  });
}

double BlockHeuristic::Results() const {
  double out = 1;
  for (size_t a = 0; a < axes_.size(); ++a) {
    if (IsGrid(a)) out *= static_cast<double>(sizes_[a]);
  }
  return out;
}

bool BlockHeuristic::IsContiguous(size_t axis, bool loads) const {
  bool any = false;
  for (const Access& x : accesses_) {
    if (x.is_store == loads || (loads && x.strides[axis] == 0)) continue;
    if (x.strides[axis] != 1) return false;
    any = true;
  }
  return any;
}

// The widest access of a thread, along an axis on which results or terms lie next to each other.
void BlockHeuristic::ChooseVectors() {
  for (size_t a = axes_.size(); a-- > 0;) {
    const bool pays = IsReduce(a) ? IsContiguous(a, true) : IsContiguous(a, false);
    if (!pays || !fixed_[a]) continue;
    // Not so wide that too few threads are left.
    const double threads = Results() * (IsReduce(a) ? static_cast<double>(sizes_[a]) : 1);
    for (int64_t n = target_.vector_bytes / std::max<int64_t>(widest_, 2); n > 1; n /= 2) {
      if (sizes_[a] % n != 0 || threads / static_cast<double>(n) < kThreadsPerUnit * target_.units)
        continue;
      if (Add(OptKind::kVector, a, n)) return;
    }
  }
}

void BlockHeuristic::ChooseGroups() {
  const double wanted = kThreadsPerUnit * target_.units;
  for (size_t a = axes_.size(); a-- > 0;) {
    if (!IsReduce(a) || sizes_[a] < kLongSum) continue;
    const bool contiguous = IsContiguous(a, true);
    if (!contiguous && Results() >= wanted) continue;
    // Each thread adds up at least two terms. Where results lie next to each other, a warp reads a row of them.
    const int64_t most =
        std::min(kBlockThreads, target_.max_block_threads) / (contiguous ? 1 : Neighbours());
    int64_t n = std::min(most / group_, PowerBelow(left_[a] / 2));
    // Many results need fewer threads each; a group along memory stays a warp.
    const auto threads = [&](int64_t members) {
      return Results() * static_cast<double>(members * group_);
    };
    while (n > 32 && threads(n) >= wanted * 8) n /= 2;
    for (; n > 1; n /= 2) {
      if (!Add(OptKind::kGroup, a, n)) continue;
      if (!staged_over_[a]) group_ *= n;
      break;
    }
  }
}

int64_t BlockHeuristic::Neighbours() const {
  int64_t out = 1;
  for (size_t a = 0; a < axes_.size(); ++a) {
    if (IsGrid(a) && IsContiguous(a, true)) out = std::max(out, PowerBelow(left_[a]));
  }
  return std::min(out, kNeighbours);
}

void BlockHeuristic::ChooseLocals() {
  std::vector<size_t> order;
  for (size_t a = axes_.size(); a-- > 0;) {
    if (!IsReduce(a)) order.push_back(a);
  }
  // The axis along which memory is contiguous first: neighbouring threads access neighbouring elements.
  const auto place = [&](size_t a) {
    return std::pair(IsContiguous(a, false) ? 0 : IsContiguous(a, true) ? 1 : 2, axes_.size() - a);
  };
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) { return place(a) < place(b); });
  for (size_t a : order) {
    // An axis that is a loop of each thread may use all threads of the block, also those of a group.
    const int64_t others = IsGrid(a) ? threads_ * group_ : threads_;
    const int64_t most =
        std::min(kBlockThreads, target_.max_block_threads) / std::max<int64_t>(others, 1);
    int64_t n = std::min(PowerBelow(most), PowerBelow(left_[a]));
    if (n < most && n < left_[a]) n *= 2;  // the last threads have nothing to do
    for (; n > 1; n /= 2) {
      if (n > most || !Add(OptKind::kLocal, a, n)) continue;
      threads_ *= n;
      break;
    }
  }
}

void BlockHeuristic::ChooseUnroll() {
  for (size_t a = axes_.size(); a-- > 0;) {
    if (!IsReduce(a) || !fixed_[a] || left_[a] < 2) continue;
    if (left_[a] <= kShortSum) {
      Add(OptKind::kUnroll, a, left_[a]);
    } else {
      for (int64_t n = kUnroll; n > 1; n /= 2) {
        if (left_[a] % n == 0 && Add(OptKind::kUnroll, a, n)) break;
      }
    }
    return;
  }
}

}  // namespace uopd::codegen
